"""Lynx-HEU: on each stage one recompute choice per kind of block, and layers moved greedily.

Chen et al. 2024 (Lynx, arXiv 2406.08756): HEU solves its program once per kind of layer and repeats
the answer in all layers of the stage, hiding recompute under communication where it can. Its
partition starts from the even split, and a layer moves from the slowest stage to the fastest while
that helps. Here each kind's program is solved to the optimum, with windows of its own backward;
what Lynx does in stalls of the pipeline is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from solver.assess import assess
from solver.costs.pipeline import Block, Overlapping, PipelineCosts
from solver.partition.candidates import Cut
from solver.partition.even import even_split
from solver.partition.menu import Floats, Index, Part
from solver.partition.stages import Stage
from solver.recompute.choice import Choice
from solver.recompute.dominance import undominated_rows
from solver.recompute.frontier import frontier
from solver.recompute.placed import own_placements
from solver.request import Overlap
from solver.schedules import Schedule

ROUNDING = 1e-12
"""Relative slack of a memory comparison."""


def lynx_heu(
    costs: PipelineCosts, schedule: Schedule, overlap: Overlap = Overlap.OFF
) -> tuple[Stage, ...] | None:
    """The stages that Lynx-HEU would choose; None if its even split does not fit."""
    hides = overlap in (Overlap.COMMUNICATION, Overlap.ALL)

    def stages_of(cuts: tuple[Cut, ...]) -> tuple[Stage, ...] | None:
        made = [_stage(costs, schedule, at, cut, hides) for at, cut in enumerate(cuts)]
        return tuple(stage for stage in made if stage is not None) if all(made) else None

    return _balanced(costs, schedule, even_split(costs, schedule.stages), stages_of)


def _balanced(
    costs: PipelineCosts,
    schedule: Schedule,
    cuts: tuple[Cut, ...],
    stages_of: Callable[[tuple[Cut, ...]], tuple[Stage, ...] | None],
) -> tuple[Stage, ...] | None:
    """Move a layer from the slowest stage to the fastest while the iteration gets shorter."""
    best = stages_of(cuts)
    if best is None:
        return None
    judged = assess(costs, schedule, best)
    while True:
        load = [time.forward + time.backward for time in judged.times]
        slow, fast = int(np.argmax(load)), int(np.argmin(load))
        moved = _moved(cuts, slow, fast)
        stages = stages_of(moved) if moved else None
        if stages is None:
            return best
        again = assess(costs, schedule, stages)
        if again.makespan >= judged.makespan:
            return best
        best, cuts, judged = stages, moved, again


def _moved(cuts: tuple[Cut, ...], source: int, target: int) -> tuple[Cut, ...]:
    """The cuts with a block of ``source`` fewer, one of ``target`` more; () if none is left."""
    edges = [start for start, _ in cuts] + [cuts[-1][1]]
    low, high, step = (
        (source + 1, target + 1, -1) if source < target else (target + 1, source + 1, 1)
    )
    for edge in range(low, high):
        edges[edge] += step
    moved = tuple(itertools.pairwise(edges))
    return moved if all(start < stop for start, stop in moved) else ()


def _stage(
    costs: PipelineCosts, schedule: Schedule, position: int, cut: Cut, hides: bool
) -> Stage | None:
    """The cheapest stage of one choice per kind; None if nothing fits."""
    run = costs.sequence[cut[0] : cut[1]]
    flight = schedule.in_flight(position)
    of_kind = {k: _choices(costs.blocks[k], costs.overlapping, hides) for k in dict.fromkeys(run)}
    kinds = sorted(of_kind, key=lambda kind: len(of_kind[kind]))
    states = sum(costs.blocks[kind].states.total for kind in run)
    sums = _Sums(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros((1, 0), dtype=np.int64))
    for kind in kinds:
        sums = sums.with_kind(of_kind[kind], run.count(kind), costs.blocks[kind].working_bytes)
        if kind != kinds[-1]:  # of the last kind, the one with most choices, all are looked at
            sums = sums.best()
    needed = states + costs.reserved_bytes + flight * sums.kept + sums.working
    fits = needed <= costs.capacity_bytes * (1 + ROUNDING)
    if not fits.any():
        return None
    at = int(np.argmin(np.where(fits, sums.seconds, np.inf)))
    taken = {kind: of_kind[kind][int(row)] for kind, row in zip(kinds, sums.rows[at], strict=True)}
    parts: list[Part] = []
    for kind in run:
        if parts and parts[-1].kind == kind:
            parts[-1] = Part(kind, taken[kind], parts[-1].count + 1)
        else:
            parts.append(Part(kind, taken[kind], 1))
    return Stage(cut[0], cut[1], tuple(parts))


@lru_cache(maxsize=256)
def _choices(block: Block, overlapping: Overlapping, hides: bool) -> tuple[Choice, ...]:
    if not hides:
        return tuple(frontier(block).choices)
    return tuple(own_placements(block, overlapping).choices)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Totals of a stage's kinds, shape (sums,), and the choice of each kind."""

    kept: Floats
    seconds: Floats
    working: Floats
    rows: Index

    def with_kind(self, choices: tuple[Choice, ...], count: int, working: float) -> _Sums:
        """The totals with so many blocks of one more kind, all of one choice."""
        first, row = np.indices((len(self.kept), len(choices)), dtype=np.int64).reshape(2, -1)
        kept = self.kept[first] + count * np.array([c.kept_bytes for c in choices])[row]
        seconds = self.seconds[first] + count * np.array([c.seconds for c in choices])[row]
        own = np.array([choice.recompute_bytes for choice in choices])[row] + working
        most = np.maximum(self.working[first], own)
        rows = np.concatenate([self.rows[first], row[:, None]], axis=1)
        return _Sums(kept, seconds, most, rows)

    def best(self) -> _Sums:
        """Those that no other beats."""
        held = np.stack([self.kept, self.seconds, self.kept + self.working], axis=1)
        best = undominated_rows(held)
        return _Sums(self.kept[best], self.seconds[best], self.working[best], self.rows[best])
