"""Neighbours of a plan: one block moved from one stage to another, those between shifted along."""

from __future__ import annotations

import itertools

import numpy as np

from solver.partition.candidates import Candidates, Cut, Index
from solver.partition.paths import OwnPaths
from solver.schedules.simulate import Floats

MOST = 16
"""Neighbours that are worth an exact simulation, the best by own-paths first."""


def neighbours(
    plan: tuple[Cut, ...],
    candidates: Candidates,
    paths: OwnPaths,
    limit: float,
    steps: tuple[int, ...] = (1,),
) -> tuple[list[tuple[Cut, ...]], list[float]]:
    """Plans with the cuts i .. j moved by one block either way: stage i gains, j + 1 loses one.

    Of all such plans those of least own-path bound are returned, at most ``MOST``, and none whose
    bound reaches ``limit``: it cannot be faster than that. ``steps``: by how much cuts move, where
    they tell more than a place (``timings.py``). The bounds come with the plans.
    """
    stages = len(plan)
    if stages == 1:
        return [], []
    cuts = np.array([start for start, _ in plan[1:]])
    first, last = np.triu_indices(stages - 1)
    moved_cuts = (np.arange(stages - 1) >= first[:, None]) & (
        np.arange(stages - 1) <= last[:, None]
    )
    shifted = np.concatenate(
        [moved for step in steps for moved in (cuts + step * moved_cuts, cuts - step * moved_cuts)]
    )
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
    value = _own_path_bound(edges, candidates, paths)
    best = np.argsort(value, kind="stable")[:MOST]
    best = best[value[best] < limit]
    return [tuple(itertools.pairwise(row)) for row in edges[best].tolist()], value[best].tolist()


def _own_path_bound(edges: Index, candidates: Candidates, paths: OwnPaths) -> Floats:
    """The longest own-path of every plan, shape (plans,); infinite if a run is no candidate."""
    stage, width = np.arange(edges.shape[1] - 1), candidates.runs.shape[1]
    places = edges - candidates.offset
    inside = (places >= 0) & (places < width)
    places = np.clip(places, 0, width - 1)
    at = (stage, places[:, :-1], places[:, 1:])
    usable = (candidates.alive[at] & inside[:, :-1] & inside[:, 1:]).all(axis=1)
    forward = candidates.forward[at]
    backward = np.where(usable[:, None], candidates.backward[at], 0.0)
    weight = candidates.weight[at]
    recompute = candidates.recompute[at]
    passes = np.cumsum(forward + backward, axis=1)
    before = passes - forward - backward
    down = np.cumsum(forward, axis=1) - forward
    after = passes[:, -1:] - passes
    end = paths.first_weight * weight[:, :1]
    value = np.full(len(edges), -np.inf)
    for family in paths.families:
        length = (before + end if family.returns else down) + family.after * after + family.seconds
        length = length + family.forward * forward + family.backward * backward
        length = length + family.weight * weight
        if family.recompute is not None:
            length = length + family.recompute * recompute
        value = np.maximum(value, length.max(axis=1))
    return np.where(usable, value, np.inf)
