"""Neighbours of a plan: one block moved from one stage to another, those between shifted along."""

from __future__ import annotations

import itertools

import numpy as np

from solver.partition.candidates import Bools, Cut, Index, RunTimes
from solver.partition.paths import OwnPaths
from solver.schedules.simulate import Floats

MOST = 16
"""Neighbours that are worth an exact simulation, the best by own-paths first."""


def neighbours(plan: tuple[Cut, ...], times: RunTimes, paths: OwnPaths) -> list[tuple[Cut, ...]]:
    """Plans with the cuts i .. j moved by one block either way: stage i gains, j + 1 loses one.

    Of all such plans those of least own-path bound are returned, at most ``MOST``.
    """
    stages = len(plan)
    if stages == 1:
        return []
    cuts = np.array([start for start, _ in plan[1:]])
    first, last = np.triu_indices(stages - 1)
    moved_cuts = (np.arange(stages - 1) >= first[:, None]) & (
        np.arange(stages - 1) <= last[:, None]
    )
    shifted = np.concatenate([cuts + moved_cuts, cuts - moved_cuts])
    length = plan[-1][1]
    edges = np.concatenate(
        [
            np.zeros((len(shifted), 1), dtype=np.int64),
            shifted,
            np.full((len(shifted), 1), length),
        ],
        axis=1,
    )
    edges = edges[(np.diff(edges, axis=1) > 0).all(axis=1)]
    edges = edges[_fitting(edges, times)]
    value = _own_path_bound(edges, times, paths)
    best = np.argsort(value, kind="stable")[:MOST]
    return [tuple(itertools.pairwise(row)) for row in edges[best].tolist()]


def _fitting(edges: Index, times: RunTimes) -> Bools:
    """Plans whose every stage fits, shape (plans,)."""
    stage = np.arange(edges.shape[1] - 1)
    backward = times.backward[stage, edges[:, :-1] - stage, edges[:, 1:] - stage - 1]
    return np.asarray(np.isfinite(backward).all(axis=1))


def _own_path_bound(edges: Index, times: RunTimes, paths: OwnPaths) -> Floats:
    """The longest own-path of every plan, shape (plans,)."""
    stage = np.arange(edges.shape[1] - 1)
    start, stop = edges[:, :-1] - stage, edges[:, 1:] - stage - 1
    forward = times.forward[stage, start, stop]
    backward = times.backward[stage, start, stop]
    passes = np.cumsum(forward + backward, axis=1)
    before = passes - forward - backward
    after = passes[:, -1:] - passes
    value = np.full(len(edges), -np.inf)
    for family in paths.families:
        length = before + family.after * after + family.seconds
        length = length + family.forward * forward + family.backward * backward
        value = np.maximum(value, length.max(axis=1))
    return value
