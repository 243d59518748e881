"""Lower bounds of the plans that use a run, from the schedule's own-paths (``paths.py``).

Three bounds: the run's own paths with the cheapest stages before and after; the least bottleneck of
the stages before; and of those after. All work on lists of the runs that are alive, stage by stage;
what the stages before or after a run come to at least is a fold over them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solver.partition.candidates import Candidates, Index
from solver.partition.paths import OwnPaths
from solver.schedules.simulate import Floats

Combine = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, eq=False)
class _Groups:
    """The runs of every stage in the groups that share a cut, for folds from stage to stage.

    ``order`` lists the runs group by group; ``edges`` are where the runs of each stage begin in it,
    ``first`` where its groups do, within the stage; ``spans`` which groups those are. ``of_cut``
    has shape (V + 1, W): the group of each cut of each stage, ``nowhere`` where there is none. Its
    last row is for where the fold begins, which is ``nowhere`` + 1.
    """

    order: Index
    edges: list[int]
    first: list[Index]
    spans: list[int]
    of_cut: Index
    nowhere: int

    @classmethod
    def of(
        cls, stage: Index, cut: Index, order: Index, edges: list[int], shape: tuple[int, int]
    ) -> _Groups:
        stage, cut = stage[order], cut[order]
        begins = np.empty(len(order), dtype=bool)
        begins[:1] = True
        np.not_equal(cut[1:], cut[:-1], out=begins[1:])
        begins[edges[1:-1]] = True
        places = begins.nonzero()[0]
        spans = places.searchsorted(edges).tolist()
        within = places - np.array(edges)[stage[places]]
        first = [within[low:high] for low, high in itertools.pairwise(spans)]
        of_cut = np.full(shape, len(places))
        of_cut[stage[places], cut[places]] = np.arange(len(places))
        return cls(order, edges, first, spans, of_cut, len(places))


class Listed:
    """The runs of some candidates that are alive, by stage; arrays have shape (runs,).

    Every stage has one.
    """

    def __init__(self, candidates: Candidates) -> None:
        stages, width = candidates.stages, candidates.runs.shape[1]
        self.places = np.flatnonzero(candidates.alive)
        self.stage, cuts = np.divmod(self.places, width * width)
        start, stop = np.divmod(cuts, width)
        edges = self.stage.searchsorted(np.arange(stages + 1)).tolist()
        self.first = slice(0, edges[1])
        by_stop = np.argsort((self.stage * width + stop) * width + start)
        shape = stages + 1, width
        self._by_start = _Groups.of(self.stage, start, np.arange(len(start)), edges, shape)
        self._by_stop = _Groups.of(self.stage, stop, by_stop, edges, shape)
        # Where each run's neighbours stand: the group that begins where it stops, and the other.
        self._by_start.of_cut[-1, 0] = self._by_start.nowhere + 1
        self._after = self._by_start.of_cut[self.stage + 1, stop]
        self._by_stop.of_cut[-1, 0] = self._by_stop.nowhere + 1
        self._before = self._by_stop.of_cut[self.stage - 1, start]  # stage 0 starts in the last row

    def of(self, values: Floats) -> Floats:
        """The values of these runs, from those of all, shape (V, W, W)."""
        if not any(values.strides):  # one value, spread out
            return np.full(len(self.places), values.flat[0])
        return values.reshape(-1).take(self.places)

    def before(self, cost: Floats, combine: Combine, nothing: float) -> Floats:
        """What the stages before each run come to at least; infinite where none lead to it.

        ``combine`` joins the costs of two runs, as ``np.add`` or ``np.maximum``; ``nothing`` is
        what no stage comes to.
        """
        groups = self._by_stop
        cost, last = cost[groups.order], self._before[groups.order]
        found = _fold(groups, range(len(groups.first)), cost, last, combine, nothing)
        return np.asarray(found[self._before])

    def after(self, cost: Floats, combine: Combine, nothing: float) -> Floats:
        """The same of the stages after each run."""
        stages = range(len(self._by_start.first))[::-1]
        found = _fold(self._by_start, stages, cost, self._after, combine, nothing)
        return np.asarray(found[self._after])

    def led(self, cost: Floats, at_end: Floats) -> Floats:
        """Costs on the way to each run, that begins with what any stage up to it has at its end.

        The least of them, finite; zero where nothing leads to a run.
        """
        groups, led = self._by_stop, np.empty(len(cost))
        order = groups.order
        cost, at_end, before = cost[order], at_end[order], self._before[order]
        found = np.full(groups.nowhere + 2, np.inf)
        found[-1] = 0.0
        for stage, first in enumerate(groups.first):
            runs = slice(groups.edges[stage], groups.edges[stage + 1])
            here = np.maximum(found.take(before[runs]), at_end[runs])
            led[order[runs]] = here
            here += cost[runs]
            out = found[groups.spans[stage] : groups.spans[stage + 1]]
            np.minimum.reduceat(here, first, out=out)
        return _finite(led)


def _fold(
    groups: _Groups, stages: range, cost: Floats, last: Index, combine: Combine, nothing: float
) -> Floats:
    """Per group the least, over its runs, of their cost joined with that of the group before."""
    found = np.full(groups.nowhere + 2, np.inf)
    found[-1] = nothing
    reduce, edges, spans, first = np.minimum.reduceat, groups.edges, groups.spans, groups.first
    for stage in stages:
        low, high = edges[stage], edges[stage + 1]
        here = combine(cost[low:high], found.take(last[low:high]))
        reduce(here, first[stage], out=found[spans[stage] : spans[stage + 1]])
    return found


def plan_bounds(candidates: Candidates, paths: OwnPaths) -> Floats:
    """For every run, a lower bound of the makespan of any plan of alive runs that uses it.

    Shape (V, W, W); infinite for runs that are not alive or stand in no plan.
    """
    bounds = np.full(candidates.alive.shape, np.inf)
    if candidates.alive.any(axis=(1, 2)).all():
        runs = Listed(candidates)
        bounds.reshape(-1)[runs.places] = _bounds(candidates, runs, paths)
    return bounds


def _bounds(candidates: Candidates, runs: Listed, paths: OwnPaths) -> Floats:
    """``plan_bounds`` of the runs that are alive."""
    stage, send = runs.stage, paths.send_seconds
    forward, backward = runs.of(candidates.forward), runs.of(candidates.backward)
    passes = forward + backward
    gathers, reduces = _takes_time(candidates.before_first), _takes_time(candidates.after_last)
    moved, late = gathers or reduces, _takes_time(candidates.weight)
    gather, reduction = runs.of(candidates.before_first), runs.of(candidates.after_last)
    weight = runs.of(candidates.weight)
    # Own-paths start with stage 0's first forward; those that return end with its last work.
    begins, ends = gather[runs.first], reduction[runs.first]
    if paths.first_weight:
        ends = ends + paths.first_weight * weight[runs.first]
    before = runs.before(_leading(passes, runs, begins + ends), np.add, 0.0)
    after = runs.after(passes, np.add, 0.0)
    connected = np.isfinite(before) & np.isfinite(after)
    before, after = _finite(before), _finite(after)
    down = before
    if moved or not all(family.returns for family in paths.families):
        down = _finite(runs.before(_leading(forward, runs, begins), np.add, 0.0))
    led = _leading(before, runs, begins + ends)
    if moved and not late:
        # The first micro-batch comes down from any earlier stage that has gathered its weights; the
        # last one goes up to any that then reduces its gradients. Sends from and to the first
        # stage, which own-paths count, are taken off.
        ways = runs.led(forward + send, gather) + runs.led(backward + send, reduction)
        led = np.maximum(led, ways - 2.0 * send * stage)
    bound = np.full(len(passes), -np.inf)
    for family in paths.families:
        value = family.forward.take(stage) * forward + family.backward.take(stage) * backward
        if late and family.weight.any():
            value += family.weight.take(stage) * weight
        if family.returns:
            value += led
        else:
            value += down + reduction
            value[runs.first] += begins
        if family.recompute is not None:
            value += family.recompute.take(stage) * runs.of(candidates.recompute)
        if family.after:
            value += family.after * after
        value += family.seconds.take(stage)
        np.maximum(bound, value, out=bound)
    if moved:
        # All that a stage's device does, between what leads to it and what follows: its own weights
        # are gathered first, or the first micro-batch has to come down; its own gradients are
        # reduced last, or its last backward has to go up.
        n = paths.micro_batches
        value = n * passes + np.maximum(gather, down)
        if late:  # made after the last backward, which then leads nowhere
            value += n * weight + reduction
        else:
            up = runs.before(_leading(backward, runs, ends), np.add, 0.0)
            value += np.maximum(reduction, _finite(up)) + n * runs.of(candidates.recompute)
        np.maximum(bound, value, out=bound)
    bound = np.where(connected, bound + runs.of(candidates.step), np.inf)
    for bottleneck in (runs.before, runs.after):
        np.maximum(bound, bottleneck(bound, np.maximum, -np.inf), out=bound)
    return bound


def _leading(cost: Floats, runs: Listed, more: Floats) -> Floats:
    """A cost of every run, with more on the first stage."""
    led = cost.copy()
    led[runs.first] += more
    return led


def _finite(values: Floats) -> Floats:
    """The values, zero where they are infinite."""
    return np.where(np.isfinite(values), values, 0.0)


def _takes_time(seconds: Floats) -> bool:
    """Whether some run takes any; what is spread out takes none."""
    return any(seconds.strides) and bool(seconds.any())
