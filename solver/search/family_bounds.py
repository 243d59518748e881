"""Bounds of all members of a family at once, from the blocks that they share.

They are those of ``bound.py`` for work, bubble and cuts, and two more.

**Recompute.** Stage s has room for m_s layers of the most frequent kind, each of which takes some
choice c of seconds t_c and kept bytes k_c: sum over c of (states + f_s k_c) m_sc <= C. Whatever the
price of a layer, weak duality gives

    recompute >= price L - sum over s of C max(0, max over c of (price - t_c) / (states + f_s k_c))

and what is recomputed adds to W.

**Memory.** A stage of m layers holds at least their states and, for each micro-batch in flight,
their inputs; as many layers as all stages have room for must be there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from solver.costs.pipeline import Block, PipelineCosts
from solver.recompute.frontier import Frontier
from solver.search.members import Index, Members
from solver.search.totals import Bools, Floats, Totals


def may_fit(members: Members, totals: Totals, inputs_kept: bool) -> Bools:
    """Whether memory might suffice for each member: all stages together have room for all layers.

    ``inputs_kept``: every layer keeps its input.
    """
    pipeline = members.pipeline
    if not totals.alike and members.pools is None:
        return np.ones(len(pipeline), dtype=bool)
    if members.pools is not None:
        return _may_fit_on_pools(members, members.pools, totals, inputs_kept)
    room = float(totals.room_bytes[0])
    fits = pipeline * room * (1 + 1e-12) >= totals.counts @ totals.states
    layers = totals.layers & (totals.counts > 0)
    if not layers.any() or not fits.any():
        return np.asarray(fits)
    states = totals.states[layers].min()
    kept = totals.inputs[layers].min() if inputs_kept else 0.0
    if states + kept <= 0:
        return np.asarray(fits)
    p, n, chunked, counted = members.shapes[:, :, None]
    left = p - np.arange(int(p.max()))
    alive = np.where(counted, _alive(left, p, n, chunked > 0), 1)
    # The small addition keeps a stage that is exactly full from being rounded down.
    held = np.floor(room / (states + alive * kept) * (1 + 1e-9) + 1e-9)
    enough = np.where(left > 0, held, 0).sum(axis=1) >= totals.counts[layers].sum()
    return np.asarray(fits & enough[members.shape])


def _may_fit_on_pools(members: Members, pools: Index, totals: Totals, inputs_kept: bool) -> Bools:
    """The same where every stage has the room of its pool."""
    layers = totals.layers & (totals.counts > 0)
    if not layers.any():
        return np.ones(len(pools), dtype=bool)
    states = totals.states[layers].min()
    kept = totals.inputs[layers].min() if inputs_kept else 0.0
    p, n = members.pipeline[:, None], members.micro_batches[:, None]
    left = p - np.arange(pools.shape[1])
    alive = np.where(members.known[:, None], np.minimum(left, n), 1)
    held = np.maximum(states + alive * kept, 1e-9)
    most = np.floor(totals.room_bytes[pools] / held * (1 + 1e-9) + 1e-9)
    return np.asarray(np.where(pools >= 0, most, 0).sum(axis=1) >= totals.counts[layers].sum())


def _shared_work(pools: Index, totals: Totals) -> Floats:
    """Least seconds of the longest stage where stages stand on pools.

    With prices y_s >= 0 of stages that add up to 1, the longest is at least sum over kinds of
    count x min over stages of y_s passes, by weak duality; y_s is taken as the part that would give
    every stage the same time if the pools' ratio were the same for all kinds.
    """
    work = totals.on_each @ totals.counts
    speed = np.where(pools >= 0, 1.0 / work[pools], 0.0).sum(axis=1)
    used = np.stack([(pools == pool).any(axis=1) for pool in range(len(work))], axis=1)
    kinds, which = np.unique(used, axis=0, return_inverse=True)
    relative = totals.on_each / work[:, None]
    least = np.array([totals.counts @ relative[mask].min(axis=0) for mask in kinds])
    return np.asarray(least[which.ravel()] / speed)


class FamilyBounds:
    """Bounds of all members of a family.

    ``work`` and ``bubble`` have shape (members,); ``fits`` says where memory might suffice.
    ``missing`` orders members by what they lack: bytes of states and of one micro-batch's inputs.

    Args:
        members: The family.
        totals: What the blocks of its exemplar take, or less.
        inputs_kept: Every layer keeps its input.
    """

    def __init__(self, members: Members, totals: Totals, inputs_kept: bool) -> None:
        p, n = members.pipeline.astype(np.float64), members.micro_batches.astype(np.float64)
        self._members, self._totals = members, totals
        self._rest = float(totals.counts @ totals.updates) / p + totals.fixed_seconds
        once = np.where(members.known, 1.0, 0.0)
        self.work = np.maximum(n / p, once) * totals.work + self._rest
        self._longest = _longest_pass(members, totals)
        if members.pools is not None:
            longest = _shared_work(members.pools, totals)
            self._longest = np.maximum(self._longest, longest)
            self.work = np.maximum(self.work, n * longest + self._rest)
        self.bubble = np.maximum(self.work, self._bubble(totals.work))
        self.fits = may_fit(members, totals, inputs_kept)
        self.missing = float(totals.counts @ (totals.states + totals.inputs)) / p

    def _bubble(self, work: Floats | float) -> Floats:
        """Bubble and cuts, for seconds of one micro-batch through all blocks."""
        members, longest = self._members, self._longest
        p, n = members.pipeline, members.micro_batches
        # Chimera's two copies of a stage share its micro-batches.
        times = np.where(members.halved, n / 2, n)
        found = np.maximum(members.factors * work, times * longest)
        cuts = np.where(members.gpipe, work + (n - 1) * longest, 2 * work + (n - p - 1) * longest)
        holds = members.known & (members.virtual == 1) & (p > 1) & (members.gpipe | (n > p))
        return np.asarray(np.where(holds, np.maximum(found, cuts), found) + self._rest)

    def estimate(self, costs: PipelineCosts) -> Floats:
        """How long every member might take, no bound: an even split, and recompute as for its
        mean number of micro-batches in flight.

        ``costs``: the exemplar's.
        """
        members, work = self._members, self._totals.work
        p, n = members.pipeline.astype(np.float64), members.micro_batches.astype(np.float64)
        even = (n + members.idle * (p - 1) / members.virtual) / p
        even *= _unevenness(members, costs)
        found = np.maximum(self.bubble, even * work + self._rest)
        return np.asarray(found + n * _recompute_at_a_guess(members, costs))

    def add_recompute(self, choices: Callable[[int], Frontier]) -> None:
        """Raise ``bubble`` by what the memory asks every plan to recompute.

        ``choices``: what a kind of block may choose among.
        """
        totals, members = self._totals, self._members
        if not totals.layers.any() or not totals.alike:
            return
        kind = int(np.argmax(np.where(totals.layers, totals.counts, 0.0)))
        kept, seconds = _hull(choices(kind))
        alive = np.arange(1, int(members.pipeline.max()) * 2)[:, None, None]
        price = np.linspace(0.0, 3 * seconds.max() + 1e-9, PRICES)[None, :, None]
        held = np.maximum(totals.states[kind] + alive * kept, 1e-9)
        value = totals.room_bytes[0] * np.maximum(((price - seconds) / held).max(axis=2), 0.0)
        p, n, chunked, _ = members.shapes[:, :, None]
        stage = np.arange(int(p.max()))
        flight = np.where(stage < p, _alive(p - stage, p, n, chunked > 0), 0)
        table = np.concatenate([np.zeros((1, PRICES)), value])
        total = table[np.minimum(flight, len(value))].sum(axis=1)
        least = (price[0, :, 0] * totals.counts[kind] - total).max(axis=1)[members.shape]
        least = np.where(members.known, np.maximum(least, 0.0), 0.0)
        self.bubble = np.maximum(self.bubble, self._bubble(totals.work + least))


def _longest_pass(members: Members, totals: Totals) -> Floats:
    """The least that the longest pass of a chunk can be.

    Of the heaviest j c + 1 blocks, some of c chunks holds j + 1 or more, at least the lightest of
    them.
    """
    passes = np.repeat(totals.passes, totals.counts.astype(np.int64))
    heaviest = np.concatenate([[0.0], np.cumsum(np.sort(passes)[::-1])])
    first, last, begins = _heaviest(len(passes), tuple(members.chunks.tolist()))
    longest = np.maximum.reduceat(heaviest[last] - heaviest[first], begins)
    return np.asarray(longest[members.chunk])


@lru_cache(maxsize=256)
def _heaviest(blocks: int, chunks: tuple[int, ...]) -> tuple[Index, Index, Index]:
    """For every number of chunks and j: the lightest j + 1 of the heaviest j c + 1 blocks, as first
    and last place, and where each number of chunks begins.
    """
    of_chunks = [np.arange((blocks - 1) // count + 1) for count in chunks]
    begins = np.cumsum([0, *map(len, of_chunks)])[:-1]
    last = [j * count + 1 for j, count in zip(of_chunks, chunks, strict=True)]
    first = [stop - j - 1 for stop, j in zip(last, of_chunks, strict=True)]
    return np.concatenate(first), np.concatenate(last), begins


def _hull(front: Frontier) -> tuple[Floats, Floats]:
    """Kept bytes and seconds of the choices that are best at some price."""
    hull: list[tuple[float, float]] = []
    for point in sorted(zip(front.kept.tolist(), front.seconds.tolist(), strict=True)):
        if hull and point[1] >= hull[-1][1]:
            continue
        while len(hull) > 1 and _turns(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return np.array([a for a, _ in hull]), np.array([b for _, b in hull])


def _turns(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or above the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


PRICES = 24
"""Prices of a layer that are tried."""


def _alive(left: Index, p: Index, n: Index, chunked: Bools) -> Index:
    """Micro-batches of every layer of a stage that are in flight at once, at least.

    ``left`` counts the devices from this one to the last. At the end of the warm-up of an
    interleaved schedule no chunk has fewer than the last, 2 (left - 1) + 1 of at most a group.
    """
    return np.maximum(np.minimum(np.where(chunked, np.minimum(2 * left - 1, p), left), n), 1)


def _unevenness(members: Members, costs: PipelineCosts) -> Floats:
    """Layers of the fullest chunk of an even split over the mean."""
    layers = sum(costs.blocks[kind].checkpointable for kind in costs.sequence)
    chunks = members.pipeline * members.virtual
    return np.asarray(np.ceil(layers / chunks) * chunks / max(layers, 1))


def _recompute_at_a_guess(members: Members, costs: PipelineCosts) -> Floats:
    """Seconds per micro-batch and device that the memory might ask for; infinite if it is too
    little. What costs least per byte is recomputed first, so that time grows with the square.
    """
    layers = [costs.blocks[kind] for kind in costs.sequence if costs.blocks[kind].checkpointable]
    if not layers:
        return np.zeros(len(members.pipeline))
    p, n, v = members.pipeline, members.micro_batches, members.virtual
    states = sum(costs.blocks[kind].states.total for kind in costs.sequence)
    working = max(block.working_bytes for block in layers)
    alive = np.minimum(np.where(v > 1, p, (p + 1) / 2), n)
    room = (costs.capacity_bytes - costs.reserved_bytes - working - states / p) / alive * p
    least = sum(block.input_bytes for block in layers)
    most = least + sum(_needed_bytes(block) for block in layers)
    again = sum(block.rerun_seconds or block.forward_seconds for block in layers)
    share = np.clip((most - room) / max(most - least, 1e-9), 0.0, None)
    return np.where(share > 1, np.inf, share**2 * again / p)


def _needed_bytes(block: Block) -> float:
    reads = {name for op in block.ops for name in op.backward_reads}
    return sum(op.output_bytes for op in block.ops if op.name in reads)
