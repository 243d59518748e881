"""SAPP's published cases on its own cost model, beside its integer program: ``benchmarks.sapp``.

The cases are those that its repository carries (hyper-parallel ``sapp_ppb`` and MindFormers
``toolkit/pipeline_balance``): ``llama2_70b.json`` of the README, with the plan printed there, and
``test.json``, with the simulated time that its test expects. A layer's time is forward and backward
together, a third and two thirds; recompute types lengthen the backward by its default fractions.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace

from ortools.math_opt.python import mathopt

from solver.baselines.sapp import Balanced, sapp
from solver.costs.pipeline import Block, Op, PipelineCosts, States
from solver.partition.candidates import Cut
from solver.partition.free_menu import FreeMenu
from solver.partition.outcome import Partition
from solver.partition.problem import partition_problem
from solver.recompute.choice import Choice
from solver.recompute.frontier import Frontier, frontier_of
from solver.schedules import Schedule, StageTimes, make_schedule, makespans
from solver.schedules.moments import moments

EXTRA = {"none": 0.0, "select": 0.04, "comm": 0.125, "both": 0.165, "full": 0.5}
"""What a recompute type adds to the backward, as a part of it: SAPP's defaults."""

Parts = tuple[tuple[tuple[int, int, int], ...], ...]


@dataclass(frozen=True)
class Case:
    """A published case: its costs and recompute types, its schedule, what it gives as answer."""

    name: str
    costs: PipelineCosts
    frontiers: tuple[Frontier, ...]
    schedule: Schedule
    published_time: float | None


def _block(name: str, total: float, parameters: float) -> Block:
    op = Op("layer", ("x",), total / 3, 2 * total / 3, 0.0, ("x",))
    return Block(name, (op,), 0.0, States(weights=parameters))


def _types(total: float, kept: dict[str, float]) -> Frontier:
    return frontier_of(
        [
            Choice(size, EXTRA[name] * 2 * total / 3, 0.0, () if name == "none" else (name,))
            for name, size in kept.items()
        ]
    )


def _costs(
    head: tuple[float, float],
    layer: tuple[float, float],
    tail: tuple[float, float],
    kept: dict[str, float],
    micro_batches: int,
    capacity: float,
) -> tuple[PipelineCosts, tuple[Frontier, ...]]:
    blocks = tuple(
        _block(name, *of) for name, of in (("head", head), ("layer", layer), ("tail", tail))
    )
    costs = PipelineCosts(
        blocks=blocks,
        sequence=(0, *[1] * 96, 2),
        micro_batches=micro_batches,
        capacity_bytes=capacity,
        send_seconds=0.0,
    )
    nothing = frontier_of([Choice(0.0, 0.0, 0.0, ())])
    return costs, (nothing, _types(layer[0], kept), nothing)


def small_test() -> Case:
    """``test.json``: 96 layers on 16 stages; its test expects a simulated time of 36870."""
    costs, frontiers = _costs(
        (30, 11000), (180, 1583), (90, 2473), {"none": 826, "full": 32}, 16, 53000
    )
    return Case("test.json", costs, frontiers, make_schedule("1f1b", 16, 16), 36870.0)


def llama2_70b() -> Case:
    """``llama2_70b.json``: two chunks per device, and the README's plan of it.

    The README does not say the memory limit: it is taken to be what its plan needs.
    """
    kept = {"none": 994.0, "select": 739.0, "both": 403.0, "full": 32.0}
    costs, frontiers = _costs((13, 9236), (100, 1710), (113, 5794), kept, 32, 1.0)
    schedule = make_schedule("1f1b", 16, 32, 2)
    cuts, parts = _readme_plan(frontiers[1])
    limit = max(_needed(costs, frontiers, schedule, parts, device) for device in range(16))
    costs = replace(costs, capacity_bytes=limit)
    published = seconds(costs, frontiers, schedule, cuts, parts)
    return Case("llama2_70b.json", costs, frontiers, schedule, published)


def _readme_plan(layers: Frontier) -> tuple[tuple[Cut, ...], Parts]:
    """Three layers per chunk, but 4 on the last two stages' first and 1 on the last; 3, 1, 1, 1, 1
    layers of the first chunks in full."""
    sizes = [3] * 14 + [4, 4] + [3] * 15 + [1]
    full = [3, 1, 1, 1, 1] + [0] * 27
    dropped, all_kept = int(layers.kept.argmin()), int(layers.kept.argmax())
    parts = [
        tuple(part for part in ((1, dropped, k), (1, all_kept, size - k)) if part[2])
        for size, k in zip(sizes, full, strict=True)
    ]
    parts[0] = ((0, 0, 1), *parts[0])
    parts[-1] = (*parts[-1], (2, 0, 1))
    edges = [0, *itertools.accumulate(sum(count for _, _, count in part) for part in parts)]
    return tuple(itertools.pairwise(edges)), tuple(parts)


def _needed(
    costs: PipelineCosts,
    frontiers: tuple[Frontier, ...],
    schedule: Schedule,
    parts: Parts,
    device: int,
) -> float:
    """Bytes that a device needs."""
    mine = [parts[stage] for stage in schedule.stages_of(device)]
    states = sum(n * costs.blocks[k].states.total for part in mine for k, _, n in part)
    kept = [sum(n * float(frontiers[k].kept[c]) for k, c, n in part) for part in mine]
    held = (
        sum(alive * size for alive, size in zip(moment.alive, kept, strict=True))
        for moment in moments(schedule, device)
    )
    return states + max(held)


def seconds(
    costs: PipelineCosts,
    frontiers: tuple[Frontier, ...],
    schedule: Schedule,
    cuts: tuple[Cut, ...],
    parts: Parts,
) -> float:
    """The simulated time of a plan."""
    blocks = [[costs.blocks[kind] for kind in costs.sequence[a:b]] for a, b in cuts]
    again = [sum(n * float(frontiers[k].seconds[c]) for k, c, n in part) for part in parts]
    forward = [sum(block.forward_seconds for block in here) for here in blocks]
    backward = [
        sum(block.backward_seconds for block in here) + more
        for here, more in zip(blocks, again, strict=True)
    ]
    return float(makespans(schedule, StageTimes.of(forward, backward))[0])


def ours(case: Case) -> tuple[float, float, float]:
    """Our plan's time, its bound, and the seconds that it took to find."""
    started = time.perf_counter()
    menu = FreeMenu(case.costs, case.frontiers)
    found = partition_problem(case.costs, menu, case.schedule).solve(time_limit_seconds=120.0)
    took = time.perf_counter() - started
    assert isinstance(found, Partition), "the published plan fits"
    return found.makespan, found.lower_bound, took


def program(
    case: Case, solver: mathopt.SolverType, time_limit_seconds: float
) -> tuple[Balanced | None, float]:
    """The plan of SAPP's program, and the seconds that it took."""
    started = time.perf_counter()
    found = sapp(case.costs, case.frontiers, case.schedule, time_limit_seconds, solver)
    return found, time.perf_counter() - started


def main(time_limit_seconds: float = 90.0) -> None:
    """Print every case: its published answer, its program's, ours."""
    solvers = {"HiGHS": mathopt.SolverType.HIGHS, "CP-SAT": mathopt.SolverType.CP_SAT}
    for case in (small_test(), llama2_70b()):
        ours(case)
        makespan, bound, took = ours(case)
        print(
            f"SAPP {case.name}: {makespan:.1f}, gap {1 - bound / makespan:.1e}, {took * 1e3:.0f} ms"
        )
        print(f"  published plan {case.published_time:.1f}")
        for name, solver in solvers.items():
            found, spent = program(case, solver, time_limit_seconds)
            told = "nothing"
            if found is not None:
                simulated = seconds(
                    case.costs, case.frontiers, case.schedule, found.cuts, found.parts
                )
                told = f"{simulated:.1f}{', proved' if found.proved else ''}"
            print(
                f"  its program in {name}: {told}, {spent:.1f} s: {spent / took:.0f} times as long"
            )


if __name__ == "__main__":
    main()
