"""How fast one fixed layout is solved to its proved optimum: ``python -m benchmarks.partition``.

The case is GPT-3 175B on A100s: 96 layers on 8 stages, memory limits drawn at random between what
full recompute needs and what recomputing nothing needs. Also on 64 stages; under the other
schedules; 128 layers in halves on 64 devices with four chunks each; and the same problem as a plain
mixed-integer program, given to HiGHS and CP-SAT with a time limit.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from ortools.math_opt.python import mathopt

from benchmarks.gpt_3 import gpt_3, gpt_3_halves
from benchmarks.plain_program import solve_plain
from solver.assess import assess
from solver.costs.pipeline import PipelineCosts
from solver.partition.even import even_stages
from solver.partition.menu import Menu
from solver.partition.outcome import Partition
from solver.partition.policy_menu import least_memory_menu, policy_menu
from solver.partition.problem import partition_problem
from solver.partition.stages import stages_at, with_ample_memory
from solver.request import Policy, Recompute
from solver.schedules import Schedule, make_schedule

TARGET_SECONDS = {8: 0.010, 64: 0.060}
"""Medians below which 96 layers on so many stages are to be solved."""

OTHERS = (("gpipe", 8, 1), ("1f1b", 8, 2), ("zb-h1", 8, 1), ("zb-v", 8, 2), ("chimera", 8, 1))
"""Other schedules, their devices and chunks."""

Result = TypeVar("Result")

GENERAL_SOLVERS = {"HiGHS": mathopt.SolverType.HIGHS, "CP-SAT": mathopt.SolverType.CP_SAT}


@dataclass(frozen=True)
class Case:
    """A fixed layout of GPT-3 175B, its memory limit still open."""

    costs: PipelineCosts
    schedule: Schedule

    @property
    def name(self) -> str:
        """What is solved, in words."""
        blocks = len(self.costs.sequence) - 2
        parts = "layers" if len(self.costs.blocks) == 3 else "half layers"
        n = self.costs.micro_batches
        where = f"{blocks} {parts} on {self.schedule.stages} stages, {n} micro-batches"
        plain = self.schedule.name == "1f1b" and self.schedule.virtual_stages == 1
        return where if plain else f"{where}, {self.schedule.title}"

    def limits(self, count: int) -> list[float]:
        """Random memory limits between full recompute and none, the same for every run."""
        rng = random.Random(count)
        least, most = (_peak_bytes(self, menu) for menu in (least_memory_menu, _keeping_all))
        return [rng.uniform(least, most) for _ in range(count)]

    def within(self, capacity_bytes: float) -> PipelineCosts:
        """The costs with a memory limit."""
        return replace(self.costs, capacity_bytes=capacity_bytes)


def case(stages: int, layers: int = 96, name: str = "1f1b", chunks: int = 1) -> Case:
    """GPT-3 175B, or a part of its layers, with 8 micro-batches per device."""
    costs = gpt_3(layers, 8 * stages, capacity_bytes=1.0)
    return Case(costs, make_schedule(name, stages, costs.micro_batches, chunks))


def deep_case() -> Case:
    """128 layers in halves on 64 devices, four chunks each."""
    costs = gpt_3_halves(128, 512, capacity_bytes=1.0)
    return Case(costs, make_schedule("1f1b", 64, costs.micro_batches, 4))


def _keeping_all(costs: PipelineCosts) -> Menu:
    return policy_menu(costs, Recompute(policy=Policy.NONE))


def _peak_bytes(case: Case, menu_of: Callable[[PipelineCosts], Menu]) -> float:
    """What the fullest device needs in the even split."""
    ample = with_ample_memory(case.costs)
    cuts = even_stages(ample, case.schedule)
    stages = stages_at(ample, menu_of(ample), case.schedule, cuts)
    assert stages is not None, "everything fits an ample memory"
    return assess(ample, case.schedule, stages).peak_bytes


def solve(case: Case, capacity_bytes: float) -> Partition:
    """The optimum under a memory limit, from the costs on."""
    costs = case.within(capacity_bytes)
    found = partition_problem(costs, policy_menu(costs, Recompute()), case.schedule).solve()
    assert isinstance(found, Partition), "the limits leave room for full recompute"
    return found


@dataclass(frozen=True)
class Times:
    """Wall-clock and processor seconds; on a quiet machine they are the same."""

    wall: float
    processor: float


def timed(work: Callable[[], Result]) -> tuple[Result, Times]:
    """What a call gives, and how long it takes."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, Times(time.perf_counter() - wall, time.process_time() - processor)


def measure(case: Case, count: int) -> float:
    """Solve under random memory limits, print the times, and give their median in seconds."""
    limits = case.limits(count)
    _, first = timed(partial(solve, case, limits[0]))
    solved = [timed(partial(solve, case, limit)) for limit in limits]
    wall, processor = (
        np.percentile([getattr(times, clock) for _, times in solved], [50, 95]) * 1e3
        for clock in ("wall", "processor")
    )
    gaps = [1 - found.lower_bound / found.makespan for found, _ in solved]
    print(f"{case.name}: {count} memory limits")
    print(f"  median {wall[0]:.1f} ms, 95th percentile {wall[1]:.1f} ms", end="")
    print(f" (of the processor {processor[0]:.1f} and {processor[1]:.1f} ms)")
    print(f"  the first {first.wall * 1e3:.1f} ms, largest gap {max(gaps):.1e}")
    return float(wall[0]) / 1e3


def compare(case: Case, count: int, time_limit_seconds: float) -> None:
    """The same limits for the plain program, solver by solver."""
    print(f"{case.name}: the plain program, {time_limit_seconds:g} s at most, against ours")
    for number, limit in enumerate(case.limits(count), start=1):
        ours, times = timed(partial(solve, case, limit))
        print(f"  limit {number}: {ours.makespan:.4f} s, proved, {times.wall * 1e3:.1f} ms")
        for name, solver in GENERAL_SOLVERS.items():
            stages = case.schedule.stages
            plain, took = timed(
                partial(solve_plain, case.within(limit), stages, solver, time_limit_seconds)
            )
            found = "nothing" if plain.makespan is None else f"{plain.makespan:.4f} s"
            proof = "proved" if plain.proved else f"bound {plain.bound:.4f} s"
            ratio = took.wall / times.wall
            print(f"    {name:6} {found}, {proof}, {took.wall:.2f} s: {ratio:.0f} times as long")


def main(arguments: list[str] | None = None) -> None:
    """Print all measurements."""
    parser = argparse.ArgumentParser(prog="benchmarks.partition", description=__doc__)
    parser.add_argument("--limits", type=int, default=60, help="memory limits of each case")
    parser.add_argument("--compared", type=int, default=3, help="limits for the plain program")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds of a plain solve")
    parser.add_argument("--layers", type=int, default=96)
    parser.add_argument("--others", type=int, default=len(OTHERS), help="of the other schedules")
    parser.add_argument("--stages", type=int, nargs="*", default=[8, 64])
    chosen = parser.parse_args(arguments)
    cases = [case(stages, chosen.layers) for stages in chosen.stages]
    for one in cases:
        median = measure(one, chosen.limits)
        target = TARGET_SECONDS.get(one.schedule.stages)
        if target is not None and chosen.layers == 96:
            print(f"  target {target * 1e3:.0f} ms: {'met' if median <= target else 'missed'}")
    for name, devices, chunks in OTHERS[: chosen.others]:
        measure(case(devices, chosen.layers, name, chunks), max(chosen.limits // 6, 1))
    if chosen.layers == 96 and chosen.others:
        measure(deep_case(), max(chosen.limits // 20, 1))
    compare(cases[0], chosen.compared, chosen.time_limit)


if __name__ == "__main__":
    main()
