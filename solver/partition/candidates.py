"""Candidate runs per stage, and the plans that they make.

With V stages over L blocks, the cut before stage s lies somewhere in a window of positions from
``offset[s]`` on: at first anywhere that leaves every stage a block, later only where a candidate
run is left. Stage s starts at ``offset[s] + a`` and stops at ``offset[s + 1] + b``; all arrays have
shape (V, W, W) and are indexed [s, a, b]. Where one stage stops at b the next starts at a = b.

A run is dropped when every plan that uses it is no faster than some limit (``plan_bounds.py``).
Dropping runs makes the others' bounds larger, so it is repeated until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from solver.partition.runs import RunTotals, Signatures
from solver.schedules.simulate import Floats

Bools = npt.NDArray[np.bool_]
Index = npt.NDArray[np.int64]
Cut = tuple[int, int]
"""A run [start, stop)."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The runs still in question, and their seconds; only ``backward`` depends on the memory.

    ``offset`` has shape (V + 1,); ``runs`` (places in the totals), ``alive`` and the times
    (V, W, W).
    """

    offset: Index
    runs: Index
    alive: Bools
    forward: Floats
    backward: Floats
    step: Floats
    before_first: Floats
    after_last: Floats
    weight: Floats
    recompute: Floats

    @classmethod
    def all(
        cls,
        signatures: Signatures,
        totals: RunTotals,
        stages: int,
        longest: float = np.inf,
        places: Index | None = None,
    ) -> Candidates:
        """Every run that leaves each other stage at least one block, before any recompute.

        Args:
            signatures: The runs of the sequence.
            totals: What each adds up to.
            stages: Number of stages V.
            longest: Forward and backward seconds from which on a run is left out.
            places: Where the totals of each stage's device begin, shape (V,); at 0 if absent.
        """
        length = len(signatures.of_run) - 1
        low, high = _positions(signatures, totals, stages, longest)
        width = np.arange(int((high - low).max()) + 1)
        start = np.minimum(low[:-1, None] + width, length)
        stop = np.minimum(low[1:, None] + width, length)
        runs = signatures.of_run[start[:, :, None], stop[:, None, :]]
        inside = low[:, None] + width <= high[:, None]
        alive = (runs >= 0) & inside[:-1, :, None] & inside[1:, None, :]
        if places is not None:
            runs = runs + places[:, None, None]
        forward, backward = totals.forward[runs], totals.backward[runs]
        if np.isfinite(longest):
            alive &= forward + backward < longest
        return cls(
            offset=low,
            runs=runs,
            alive=alive,
            forward=forward,
            backward=backward,
            step=_spread(totals.step, runs),
            before_first=_spread(totals.before_first, runs),
            after_last=_spread(totals.after_last, runs),
            weight=_spread(totals.weight, runs),
            recompute=np.broadcast_to(np.float64(0.0), runs.shape),
        )

    def keeping(self, alive: Bools) -> Candidates:
        """Only the runs of ``alive``, a subset, in windows no wider than they need."""
        if not alive.any():
            return replace(self, alive=alive)
        stages, width = alive.shape[0], alive.shape[1]
        used = np.zeros((stages + 1, width), dtype=bool)
        used[:-1] |= alive.any(axis=2)
        used[1:] |= alive.any(axis=1)
        low = used.argmax(axis=1)
        high = width - 1 - used[:, ::-1].argmax(axis=1)
        narrow = int((high - low).max()) + 1
        if narrow > width // 2:
            return replace(self, alive=alive)
        places = np.minimum(low[:, None] + np.arange(narrow), width - 1)
        inside = low[:, None] + np.arange(narrow) < width
        at = (np.arange(stages)[:, None, None], places[:-1, :, None], places[1:, None, :])
        return Candidates(
            offset=self.offset + low,
            runs=self.runs[at],
            alive=alive[at] & inside[:-1, :, None] & inside[1:, None, :],
            forward=self.forward[at],
            backward=self.backward[at],
            step=self.step[at],
            before_first=self.before_first[at],
            after_last=self.after_last[at],
            weight=self.weight[at],
            recompute=self.recompute[at],
        )

    def connected(self, alive: Bools) -> Bools:
        """Runs of ``alive`` that stand in some complete plan of such runs."""
        stages, width = alive.shape[0], alive.shape[1]
        ahead = np.zeros((stages + 1, width), dtype=bool)
        behind = np.zeros((stages + 1, width), dtype=bool)
        ahead[0, 0] = behind[-1, 0] = True
        for stage in range(stages):
            ahead[stage + 1] = alive[stage][ahead[stage]].any(axis=0)
        for stage in reversed(range(stages)):
            behind[stage] = alive[stage][:, behind[stage + 1]].any(axis=1)
        return np.asarray(alive & ahead[:-1, :, None] & behind[1:, None, :])

    def with_backward(self, backward: Floats, recompute: Floats | None = None) -> Candidates:
        """The same runs with other backward times; those infinite are no longer alive.

        ``recompute``: likewise, what runs ahead of backward; as it was if None.
        """
        alive = self.alive & np.isfinite(backward)
        if recompute is None:
            return replace(self, backward=backward, alive=alive)
        alive &= np.isfinite(recompute)
        recompute = np.where(alive, recompute, 0.0)
        return replace(self, backward=backward, recompute=recompute, alive=alive)

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.runs)

    def cut(self, stage: int, a: int, b: int) -> Cut:
        """The run behind an index."""
        return int(self.offset[stage]) + a, int(self.offset[stage + 1]) + b

    def run_of(self, stage: int, cut: Cut) -> int:
        """The place in the totals of a run of the stage's window."""
        return int(self.runs[(stage, *self.index(stage, cut))])

    def runs_of(self, cuts: tuple[Cut, ...]) -> Index:
        """The places in the totals of the stages' runs, shape (V,)."""
        return np.array([self.run_of(stage, cut) for stage, cut in enumerate(cuts)])

    def admits(self, cuts: tuple[Cut, ...]) -> bool:
        """Whether every stage's run is still in question."""
        at = [self.index(stage, cut) for stage, cut in enumerate(cuts)]
        return all(bool(self.alive[stage, a, b]) for stage, (a, b) in enumerate(at))

    def index(self, stage: int, cut: Cut) -> tuple[int, int]:
        """The index of a run of the stage's window."""
        return cut[0] - int(self.offset[stage]), cut[1] - int(self.offset[stage + 1])


def _positions(
    signatures: Signatures, totals: RunTotals, stages: int, longest: float
) -> tuple[Index, Index]:
    """First and last position of every cut when no run reaches ``longest``; shape (V + 1,)."""
    length = len(signatures.of_run) - 1
    if np.isfinite(longest):
        passes = (totals.forward + totals.backward).reshape(-1, len(signatures.counts)).min(axis=0)
        loads = signatures.loads(passes)
        furthest = np.searchsorted(loads, loads[:-1] + longest * (1 + 1e-9), side="right") - 1
        furthest = np.append(np.maximum(furthest, np.arange(1, length + 1)), length)
    else:
        furthest = np.full(length + 1, length)
    stage = np.arange(stages + 1)
    low, high = stage.copy(), length - (stages - stage)
    low[-1] = high[-1] = length
    high[0] = 0
    for at in range(1, stages):
        high[at] = min(high[at], furthest[high[at - 1]])
    for at in reversed(range(1, stages)):
        low[at] = max(low[at], int(np.argmax(furthest >= low[at + 1])))
    return low, np.maximum(high, low)


def _spread(values: Floats, runs: Index) -> Floats:
    """A value per run; mostly all are zero, which takes no memory."""
    return values[runs] if values.any() else np.broadcast_to(np.float64(0.0), runs.shape)


def sums_before(cost: Floats) -> Floats:
    """Least total of the stages before s that leave it to start at a; shape (V + 1, W)."""
    table = np.full((len(cost) + 1, cost.shape[1]), np.inf)
    table[0, 0] = 0.0
    for stage, here in enumerate(cost):
        table[stage + 1] = (table[stage][:, None] + here).min(axis=0)
    return table


def sums_after(cost: Floats) -> Floats:
    """Least total of the stages s and later when s starts at a; shape (V + 1, W)."""
    table = np.full((len(cost) + 1, cost.shape[1]), np.inf)
    table[-1, 0] = 0.0
    for stage in reversed(range(len(cost))):
        table[stage] = (cost[stage] + table[stage + 1]).min(axis=1)
    return table


def bottlenecks_after(cost: Floats) -> Floats:
    """Least of the largest cost among the stages s and later; shape (V + 1, W)."""
    table = np.full((len(cost) + 1, cost.shape[1]), np.inf)
    table[-1, 0] = -np.inf
    for stage in reversed(range(len(cost))):
        table[stage] = np.maximum(cost[stage], table[stage + 1]).min(axis=1)
    return table


def cheapest_plan(candidates: Candidates, cost: Floats) -> tuple[Cut, ...]:
    """The plan of least total cost; () if there is none."""
    after = sums_after(cost)
    if not np.isfinite(after[0, 0]):
        return ()
    cuts, start = [], 0
    for stage, here in enumerate(cost):
        stop = int(np.argmin(here[start] + after[stage + 1]))
        cuts.append(candidates.cut(stage, start, stop))
        start = stop
    return tuple(cuts)


def least_bottleneck_plan(candidates: Candidates, bound: Floats, cost: Floats) -> tuple[Cut, ...]:
    """Of the plans of least bottleneck in ``bound``, the one of least total cost; () if none."""
    limit = float(bottlenecks_after(bound)[0, 0])
    if not np.isfinite(limit):
        return ()
    return cheapest_plan(candidates, np.where(bound <= limit, cost, np.inf))


def all_plans(candidates: Candidates, most: int) -> list[tuple[Cut, ...]] | None:
    """Every plan that the runs alive make; None if they are more than ``most``."""
    alive = candidates.connected(candidates.alive)
    ways = np.zeros(alive.shape[1])
    ways[0] = 1.0
    for here in alive:
        ways = ways @ here
    if ways[0] > most:
        return None
    ends: list[tuple[int, tuple[Cut, ...]]] = [(0, ())]
    for stage, here in enumerate(alive):
        ends = [
            (stop, (*plan, candidates.cut(stage, start, stop)))
            for start, plan in ends
            for stop in np.flatnonzero(here[start]).tolist()
        ]
    return [plan for _, plan in ends]
