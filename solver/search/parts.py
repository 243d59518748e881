"""A search in parts: what is left of it after a while is dealt out, and gathered again.

A search that has solved ``most_alone`` layouts and is not done deals what might still be better
among ``PARTS`` parts. Each goes on by itself, told how fast a plan is known already. All of this
depends on the request alone: whoever works the parts out, wherever, in whatever order, the answers
together are the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from solver.layouts import Family, Layout
from solver.layouts.choices import Value
from solver.layouts.family import Listed
from solver.layouts.pooled import PooledFamily
from solver.partition.outcome import EXACT, Infeasible
from solver.question import Question
from solver.request import Overlap
from solver.search.choice_bounds import Least
from solver.search.outcome import Loser, Outcome, Stage
from solver.search.search import standing

MOST_ALONE, MOST_DEAR = 64, 4
"""Layouts that are solved before a search is dealt out: usually, and where recompute may hide, for
then one takes a second rather than a hundredth."""

PARTS = 8


class Members(BaseModel):
    """Members of a family, as JSON has them."""

    exemplar: Layout
    pipeline: list[int]
    virtual: list[int]
    data: list[int]
    micro_batches: list[int]
    schedule: list[str]
    zero_stages: tuple[int, ...]
    sharding_groups: tuple[int, ...] | None
    rank_orders: tuple[str, ...]
    several_experts: bool
    listed: bool

    @staticmethod
    def of(family: Family) -> Members:
        """The same as JSON has it."""
        return Members(
            exemplar=family.exemplar,
            pipeline=family.pipeline.tolist(),
            virtual=family.virtual.tolist(),
            data=family.data.tolist(),
            micro_batches=family.micro_batches.tolist(),
            schedule=list(family.schedule),
            zero_stages=family.zero_stages,
            sharding_groups=family.sharding_groups,
            rank_orders=family.rank_orders,
            several_experts=family.several_experts,
            listed=isinstance(family, Listed),
        )

    @property
    def family(self) -> Family:
        """The same as a search takes it."""
        kind = Listed if self.listed else Family
        return kind(
            exemplar=self.exemplar,
            pipeline=np.array(self.pipeline, dtype=np.int64),
            virtual=np.array(self.virtual, dtype=np.int64),
            data=np.array(self.data, dtype=np.int64),
            micro_batches=np.array(self.micro_batches, dtype=np.int64),
            schedule=tuple(self.schedule),
            zero_stages=self.zero_stages,
            sharding_groups=self.sharding_groups,
            rank_orders=self.rank_orders,
            several_experts=self.several_experts,
        )


class Part(BaseModel):
    """Members that might be better, and how fast a plan is known (None: none is)."""

    members: list[Members]
    known_seconds: float | None


class PartOutcome(BaseModel):
    """``Outcome`` without what only the process that solved it can hold."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    winner: Layout | None
    micro_batches: int
    makespan: float | None
    lower_bound: float
    by_bound: float
    nearest: tuple[Layout, Infeasible] | None
    considered: int
    pruned: int
    infeasible: int
    unfinished: int
    solved: int
    losers: list[Loser]
    pruned_by: dict[Stage, int]
    least: list[tuple[str, Value | None, float]]
    seconds: float

    @staticmethod
    def of(outcome: Outcome, seconds: float) -> PartOutcome:
        """What of an outcome, which took so long, can be told to another process."""
        found = outcome.found
        return PartOutcome(
            winner=found.layout if found else None,
            micro_batches=found.costs.micro_batches if found else 0,
            makespan=found.partition.makespan if found else None,
            lower_bound=outcome.lower_bound,
            by_bound=outcome.by_bound,
            nearest=outcome.nearest,
            considered=outcome.considered,
            pruned=outcome.pruned,
            infeasible=outcome.infeasible,
            unfinished=outcome.unfinished,
            solved=outcome.solved,
            losers=list(outcome.losers),
            pruned_by=outcome.pruned_by,
            least=[(name, *item) for name, of in outcome.least.items() for item in of.items()],
            seconds=seconds,
        )


def most_alone(asked: Question) -> int | None:
    """Layouts that are solved before a search is dealt out; None: it is not."""
    if any(isinstance(family, PooledFamily) for family in asked.families):
        return None
    hides = asked.request.recompute.overlap not in (None, Overlap.OFF)
    return MOST_DEAR if hides else MOST_ALONE


def parts(outcome: Outcome) -> list[Part]:
    """The parts that go on with what a search left: member by member, best first, dealt round."""
    known = None if outcome.found is None else outcome.found.partition.makespan
    hands: list[dict[int, tuple[Family, list[int]]]] = [{} for _ in range(PARTS)]
    for number, (family, position) in enumerate(outcome.rest):
        _, positions = hands[number % PARTS].setdefault(id(family), (family, []))
        positions.append(position)
    return [
        Part(
            members=[Members.of(family.only(positions)) for family, positions in hand.values()],
            known_seconds=known,
        )
        for hand in hands
        if hand
    ]


def winner(outcomes: Sequence[PartOutcome]) -> PartOutcome | None:
    """The outcome with the fastest plan; of equals the first one on fewest devices."""
    best: PartOutcome | None = None
    for outcome in outcomes:
        if outcome.winner is None or outcome.makespan is None:
            continue
        if best is None or best.winner is None or best.makespan is None:
            best = outcome
        elif abs(outcome.makespan - best.makespan) <= EXACT * best.makespan:
            best = min(best, outcome, key=_devices)
        else:
            best = min(best, outcome, key=_seconds)
    return best


def gathered(begun: PartOutcome, answers: Sequence[PartOutcome], again: Outcome | None) -> Outcome:
    """The outcome of the whole search.

    Args:
        begun: What was found before the search was dealt out.
        answers: What came of the parts.
        again: The winner's layout, solved once more where its plan is needed; None without one.
    """
    every = (begun, *answers)
    best = winner(every)
    losers = [loser for each in every for loser in each.losers]
    losers += [
        Loser(each.winner, each.makespan, each.lower_bound)
        for each in every
        if each is not best and each.winner is not None
    ]
    found = None if again is None else again.found
    lower = min(each.lower_bound for each in every)
    if found is not None:
        lower = min(lower, found.partition.makespan)
        losers = [loser for loser in losers if loser.layout != found.layout]
    missing = [each.nearest for each in every if each.nearest is not None]
    pruned_by = sum((Counter(each.pruned_by) for each in every), Counter[Stage]())
    return Outcome(
        found=found,
        lower_bound=lower,
        by_bound=min(each.by_bound for each in every),
        nearest=min(missing, key=lambda near: near[1].missing_bytes, default=None),
        considered=begun.considered,
        pruned=sum(each.pruned for each in every),
        infeasible=sum(each.infeasible for each in every),
        unfinished=sum(each.unfinished for each in every),
        losers=tuple(sorted(losers, key=standing)),
        pruned_by={stage: pruned_by[stage] for stage in Stage},
        least=_least(every),
        solved=sum(each.solved for each in every),
    )


def _seconds(outcome: PartOutcome) -> float:
    return math.inf if outcome.makespan is None else outcome.makespan


def _devices(outcome: PartOutcome) -> int:
    assert outcome.winner is not None
    return outcome.winner.devices


def _least(every: Sequence[PartOutcome]) -> Least:
    found: Least = {}
    for outcome in every:
        for name, value, bound in outcome.least:
            of_name = found.setdefault(name, {})
            of_name[value] = min(bound, of_name.get(value, math.inf))
    return found
