"""Why a plan is as fast as it is, and what would help: each change solved again, not guessed."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from solver.assess import Assessment, stage_times
from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Partition
from solver.partition.problem import menu_on, partition_problem
from solver.partition.regime import Regime
from solver.partition.solve import PartitionProblem
from solver.plan import Explanation, Price, WhatIf
from solver.schedules import Schedule, critical_path, schedule_graph, simulate
from solver.schedules.simulate import Floats

GIGABYTE = 1e9
"""The memory whose worth is told."""

MOST_NODES = 1000
"""Nodes of search trees that a change is worth: what comes of it is the same on any machine."""


def explain(
    costs: PipelineCosts,
    schedule: Schedule,
    assessment: Assessment,
    regime: Regime,
    *,
    solve_again: bool,
    prices: list[Price] | None = None,
    time_limit_seconds: float = 30.0,
) -> Explanation:
    """The stage that decides the makespan, what limits it, and what three changes would gain.

    Args:
        costs: The plan's costs.
        schedule: Its schedule.
        assessment: Its exact times and memory.
        regime: The recompute policy that it was planned under.
        solve_again: Whether to solve the changes.
        prices: What restrictions would cost, as far as it was asked.
        time_limit_seconds: When the solving of changes ends at the latest.
    """
    share = _critical_shares(costs, schedule, assessment)
    stage = int(share.argmax())
    deadline = time.monotonic() + time_limit_seconds
    changes = (
        _changes(costs, schedule, regime, assessment.makespan, deadline) if solve_again else []
    )
    return Explanation(
        bottleneck_stage=stage,
        bottleneck_share=float(share[stage]),
        limited_by=_limit(assessment, schedule.device(stage), stage),
        what_if=changes,
        prices=prices or [],
    )


def _critical_shares(costs: PipelineCosts, schedule: Schedule, assessment: Assessment) -> Floats:
    """Share of the makespan that each stage's passes take on the critical path."""
    times = stage_times(costs, assessment.times)
    path = critical_path(simulate(schedule_graph(schedule), times))
    spent = np.zeros(schedule.stages)
    for work in schedule.work:
        spent += np.array(path.count(work)) * times.of_work(work)[0]
    return np.asarray(spent / assessment.makespan if assessment.makespan else spent)


def _limit(assessment: Assessment, device: int, stage: int) -> str:
    """``memory`` where the bottleneck recomputes because its device is full, else ``time``."""
    full = assessment.memory[device].total >= 0.95 * assessment.capacities[device]
    return "memory" if full and assessment.times[stage].recompute > 0 else "time"


def _changes(
    costs: PipelineCosts,
    schedule: Schedule,
    regime: Regime,
    makespan: float,
    deadline: float,
) -> list[WhatIf]:
    p, n, v = schedule.devices, schedule.micro_batches, schedule.virtual_stages
    more_memory = replace(
        costs,
        capacity_bytes=costs.capacity_bytes + GIGABYTE,
        devices=tuple(
            replace(one, capacity_bytes=one.capacity_bytes + GIGABYTE) for one in costs.devices
        ),
    )
    more_work = replace(costs, micro_batches=n + (p if v > 1 else 1))
    asked = [
        ("one more GB of memory per device", more_memory, schedule.resized(p, n), 1.0),
        ("one more pipeline stage", costs, schedule.resized(p + 1, n), 1.0),
        (
            "one more micro-batch" if v == 1 else f"{p} more micro-batches",
            more_work,
            schedule.resized(p, more_work.micro_batches),
            more_work.micro_batches / n,
        ),
    ]
    found = []
    for change, changed, order, work in asked:
        if costs.devices and order.devices != p:
            continue  # which device would come in is not for us to say
        if order.stages > len(costs.sequence) or (v > 1 and order.micro_batches % order.devices):
            continue
        menu = menu_on(regime.menu(changed), order)
        problem = partition_problem(changed, menu, order, regime)
        left = deadline - time.monotonic()
        if left <= 0:
            break
        if isinstance(problem, PartitionProblem):
            result = problem.solve(time_limit_seconds=left, most_nodes=MOST_NODES)
        else:
            result = problem.solve(time_limit_seconds=left)
        if isinstance(result, Partition):
            gain = makespan * work / result.makespan - 1.0 if result.makespan else 0.0
            found.append(WhatIf(change=change, iteration_seconds=result.makespan, gain=gain))
    return found
