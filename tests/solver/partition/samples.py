"""Random pipelines and their limits, as the tests of the partition use them."""

from __future__ import annotations

import itertools
import random
from functools import cache

from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Menu
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import PartitionProblem
from solver.request import Recompute
from solver.schedules import Schedule, make_schedule
from tests.solver import exhaustive
from tests.solver.random_costs import random_costs


def pipeline(seed: int) -> tuple[PipelineCosts, Schedule]:
    """A random pipeline and one of the schedules."""
    rng = random.Random(~seed)
    stages = rng.randint(1, 4)
    costs = random_costs(seed, stages)
    name = rng.choice(["1f1b", "1f1b", "gpipe"])
    return costs, make_schedule(name, stages, costs.micro_batches)


def free_menu(costs: PipelineCosts) -> Menu:
    """Every block chooses freely."""
    return policy_menu(costs, Recompute())


def solved(costs: PipelineCosts, schedule: Schedule) -> Partition | None:
    """The optimum, or None if nothing fits."""
    found = PartitionProblem(costs, free_menu(costs), schedule).solve()
    return found if isinstance(found, Partition) else None


def least_memory(costs: PipelineCosts, schedule: Schedule) -> tuple[float, set[int]]:
    """Bytes that the fullest stage needs at least, and the stages that can be the fullest then.

    Every cut, every choice of every block; shares no code with the solver.
    """

    @cache
    def stage_bytes(run: tuple[int, ...], flight: int) -> float:
        states = sum(costs.blocks[kind].states.total for kind in run)
        kinds = sorted(set(run))
        mixes = [
            itertools.combinations_with_replacement(
                exhaustive.block_choices(costs.blocks[kind]), run.count(kind)
            )
            for kind in kinds
        ]
        least = min(
            flight * sum(kept for part in mix for kept, _, _ in part)
            + max(again for part in mix for _, _, again in part)
            for mix in itertools.product(*mixes)
        )
        return costs.reserved_bytes + states + least

    length, stages = len(costs.sequence), schedule.stages
    flights = [
        exhaustive.in_flight(schedule.name, stage, stages, costs.micro_batches)
        for stage in range(stages)
    ]
    least, fullest = float("inf"), set[int]()
    for cuts in itertools.combinations(range(1, length), stages - 1):
        used = [
            stage_bytes(tuple(sorted(costs.sequence[start:stop])), flight)
            for (start, stop), flight in zip(
                itertools.pairwise((0, *cuts, length)), flights, strict=True
            )
        ]
        if max(used) < least * (1 - 1e-12):
            least, fullest = max(used), set()
        if max(used) <= least * (1 + 1e-12):
            fullest |= {stage for stage, need in enumerate(used) if need >= least * (1 - 1e-12)}
    return least, fullest
