"""Lower bounds of a layout's iteration time that cost next to nothing.

**Work.** However the blocks are cut, some device holds at least the p-th part of the work W
(forward and backward of one micro-batch through all blocks), and does it for each of n
micro-batches: T >= n W / p. Where devices differ, every block is counted as on the quickest of
them. Every micro-batch passes every block and every send once: T >= W + sends.

**Bubble.** Every own-path (``partition/paths.py``) is at most T. A mean of them with weights
lambda_c over the stages c is so too, and it counts stage s

    before_s + a_s lambda_s + after_s,   before_s = sum of lambda_c over c > s,
                                         after_s = sum of b_c lambda_c over c < s

times, a_c and b_c being how often path c counts its own stage and each later one. The weights for
which all stages count equally, lambda_{c+1} (a_{c+1} - 1) = lambda_c (a_c - b_c), make the mean a
multiple of W, whatever the cuts: T >= factor W. For 1F1B with n > p the factor is (n + p - 1) / p,
so that no uneven split has less of a bubble than the even one, per unit of work.

**Recompute.** Stage s has room for m_s layers of the most frequent kind, each of which takes some
choice c of seconds t_c and kept bytes k_c: sum over c of (states + f_s k_c) m_sc <= C. Whatever the
price of a layer, weak duality gives

    recompute >= price L - sum over s of C max(0, max over c of (price - t_c) / (states + f_s k_c))

and what is recomputed adds to W.

**Memory.** A stage of m layers holds at least their states and, for each micro-batch in flight,
their inputs; as many layers as all stages have room for must be there.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import Block, PipelineCosts
from solver.layouts.space import Family
from solver.recompute.frontier import Frontier

Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def quick_bound(
    costs: PipelineCosts,
    devices: int,
    recompute_seconds: tuple[float, ...] = (),
    *,
    splits_backward: bool = False,
) -> float:
    """Seconds below which no partition and no recompute choice of this layout can come.

    ``recompute_seconds``: per kind, what every block of it recomputes at least; empty: nothing.
    With ``splits_backward`` nobody waits for a micro-batch's gradients of weights.
    """
    of_kind = list(zip(*(one.blocks for one in costs.different), strict=True))
    per_kind = [min(b.forward_seconds + b.backward_seconds for b in blocks) for blocks in of_kind]
    updates = [min(block.optimizer_seconds for block in blocks) for blocks in of_kind]
    if recompute_seconds:
        per_kind = [a + b for a, b in zip(per_kind, recompute_seconds, strict=True)]
    passes: float = sum(per_kind[kind] for kind in costs.sequence)
    steps: float = sum(updates[kind] for kind in costs.sequence) / devices
    share = costs.micro_batches * passes / devices
    if splits_backward:
        late = [max(block.weight_seconds for block in blocks) for blocks in of_kind]
        passes -= sum(late[kind] for kind in costs.sequence)
    once = passes + 2 * (devices - 1) * costs.send_seconds
    return max(share, once) + steps + costs.fixed_seconds


def bubble_bound(costs: PipelineCosts, schedule: str, devices: int, chunks: int) -> float:
    """The bubble's bound; 0 where schedule or devices are such that none is known."""
    if costs.devices or schedule not in OWN_PATHS_KNOWN:
        return 0.0
    factor, sends = bubble(schedule, devices, chunks, costs.micro_batches)
    passes = [block.forward_seconds + block.backward_seconds for block in costs.blocks]
    steps = sum(costs.blocks[kind].optimizer_seconds for kind in costs.sequence) / devices
    work = factor * sum(passes[kind] for kind in costs.sequence) + sends * costs.send_seconds
    return work + steps + costs.fixed_seconds


OWN_PATHS_KNOWN = frozenset({"1f1b", "gpipe"})
"""Schedules whose own-paths and micro-batches in flight are known here."""

_IDLE = {"zb-h1": 1 / 3, "zb-v": 1 / 6, "chimera": 1 / 2}
"""About what share of the bubble of 1F1B a schedule leaves, for estimates only."""


@lru_cache(maxsize=65536)
def bubble(schedule: str, devices: int, chunks: int, micro_batches: int) -> tuple[float, float]:
    """Factor and sends: the makespan is at least factor x W + sends x the time of a send.

    Schedules of which no own-paths are known count their work only.
    """
    p, n = devices, micro_batches
    if schedule not in OWN_PATHS_KNOWN:
        return n / p, 0.0
    if chunks > 1 or n == 1 or p == 1:
        return max(n / p, 1.0), 0.0
    weight, total, crossed, weights = 1.0, 0.0, 0.0, 0.0
    for c in range(p):
        own, later = _own_path(schedule, p, n, c)
        if c:
            before, skipped = _own_path(schedule, p, n, c - 1)
            weight *= (before - skipped) / (own - 1)
        total += weight * (c + own + later * (p - 1 - c))
        crossed += weight * (2 * c + 2 * later * (p - 1 - c))
        weights += weight
    factor = total / weights / p
    return (factor, crossed / weights) if factor > n / p else (n / p, 0.0)


def _own_path(schedule: str, p: int, n: int, c: int) -> tuple[float, float]:
    """How often the path of stage c counts its own stage, and each later one.

    Where all micro-batches are in flight at once, the mean of the two paths that count the forward
    and the backward n times.
    """
    if schedule == "gpipe":
        return float(n), 1.0
    in_flight = min(p - c, n)
    if n > in_flight:
        return n - in_flight + 1.0, 2.0
    return (n + 1.0) / 2.0, 1.0


class FamilyBounds:
    """Bounds of all members of a family, from its exemplar's costs.

    ``work`` and ``bubble`` have shape (members,); ``fits`` says where memory might suffice.
    ``estimate``: how long a member might take, no bound: an even split, and recompute as for its
    mean number of micro-batches in flight.
    ``missing`` orders members by what they lack: bytes of states and of one micro-batch's inputs.
    """

    def __init__(self, family: Family, costs: PipelineCosts, inputs_kept: bool) -> None:
        blocks, sequence = costs.blocks, costs.sequence
        of_kind = list(zip(*(one.blocks for one in costs.different), strict=True))
        each = [min(b.forward_seconds + b.backward_seconds for b in kind) for kind in of_kind]
        passes = sum(each[kind] for kind in sequence)
        step = [min(block.optimizer_seconds for block in kind) for kind in of_kind]
        steps = sum(step[kind] for kind in sequence)
        p, n = family.pipeline.astype(np.float64), family.micro_batches.astype(np.float64)
        rest = steps / p + costs.fixed_seconds
        once = np.where(_known(family), 1.0, 0.0)
        self.work = np.maximum(n / p, once) * passes + rest
        factors = _factors(family)
        self.bubble = np.maximum(self.work, factors * passes + rest)
        idle = np.array([_IDLE.get(name, 1.0) for name in family.schedule])
        even = (n + idle * (p - 1) / family.virtual) / p
        even *= _unevenness(family, costs)
        self.estimate = np.maximum(self.bubble, even * passes + rest)
        self.estimate += n * _recompute_at_a_guess(family, costs)
        self.fits = np.ones(len(family), dtype=bool)
        if not costs.devices:
            self.fits = _may_fit(family, costs, inputs_kept)
        self._family, self._costs, self._factors, self._rest = family, costs, factors, rest
        self._passes = passes
        held = sum(blocks[kind].states.total + blocks[kind].input_bytes for kind in sequence)
        self.missing = held / p

    def add_recompute(self, frontiers: tuple[Frontier, ...]) -> None:
        """Raise ``bubble`` by what the memory asks every plan to recompute.

        ``frontiers``: per kind of block, what it may choose among.
        """
        costs, family = self._costs, self._family
        layers = [kind for kind in costs.sequence if costs.blocks[kind].checkpointable]
        if not layers or costs.devices:
            return
        kind, count = Counter(layers).most_common(1)[0]
        block, front = costs.blocks[kind], frontiers[kind]
        room = costs.capacity_bytes - costs.reserved_bytes
        room -= min(block.working_bytes for block in costs.blocks)
        kept, seconds = _hull(front)
        alive = np.arange(1, int(family.pipeline.max()) * 2)[:, None, None]
        price = np.linspace(0.0, 3 * seconds.max() + 1e-9, PRICES)[None, :, None]
        held = np.maximum(block.states.total + alive * kept, 1e-9)
        value = room * np.maximum(((price - seconds) / held).max(axis=2), 0.0)
        shapes = np.stack([family.pipeline, family.micro_batches, family.virtual > 1])
        distinct, which = np.unique(shapes, axis=1, return_inverse=True)
        p, n, chunked = distinct[:, :, None]
        stage = np.arange(int(p.max()))
        flight = np.where(stage < p, _alive(p - stage, p, n, chunked > 0), 0)
        table = np.concatenate([np.zeros((1, PRICES)), value])
        total = table[np.minimum(flight, len(value))].sum(axis=1)
        least = (price[0, :, 0] * count - total).max(axis=1)[which.ravel()]
        least = np.where(_known(family), np.maximum(least, 0.0), 0.0)
        bound = self._factors * (self._passes + least) + self._rest
        self.bubble = np.maximum(self.bubble, bound)


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


def _unevenness(family: Family, costs: PipelineCosts) -> Floats:
    """Layers of the fullest chunk of an even split over the mean."""
    layers = sum(costs.blocks[kind].checkpointable for kind in costs.sequence)
    chunks = family.pipeline * family.virtual
    return np.asarray(np.ceil(layers / chunks) * chunks / max(layers, 1))


def _recompute_at_a_guess(family: Family, costs: PipelineCosts) -> Floats:
    """Seconds per micro-batch and device that the memory might ask for; infinite if it is too
    little. What costs least per byte is recomputed first, so that time grows with the square.
    """
    layers = [costs.blocks[kind] for kind in costs.sequence if costs.blocks[kind].checkpointable]
    if not layers:
        return np.zeros(len(family))
    p, n, v = family.pipeline, family.micro_batches, family.virtual
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


def _factors(family: Family) -> Floats:
    """The factor of ``bubble`` for every member, each distinct one reckoned once."""
    names = sorted(set(family.schedule))
    number = np.array([names.index(name) for name in family.schedule])
    shapes = np.stack([number, family.pipeline, family.virtual, family.micro_batches])
    distinct, which = np.unique(shapes, axis=1, return_inverse=True)
    found = [bubble(names[k], p, v, n)[0] for k, p, v, n in distinct.T.tolist()]
    return np.array(found, dtype=np.float64)[which.ravel()]


def _may_fit(family: Family, costs: PipelineCosts, inputs_kept: bool) -> Bools:
    """Whether all stages together have room for all layers."""
    layers = [costs.blocks[kind] for kind in costs.sequence if costs.blocks[kind].checkpointable]
    total = sum(costs.blocks[kind].states.total for kind in costs.sequence)
    working = min(block.working_bytes for block in costs.blocks)
    room = costs.capacity_bytes - costs.reserved_bytes - working
    fits = family.pipeline * room * (1 + 1e-12) >= total
    if not layers or not fits.any():
        return np.asarray(fits)
    states = min(block.states.total for block in layers)
    kept = min(block.input_bytes for block in layers) if inputs_kept else 0.0
    if states + kept <= 0:
        return np.asarray(fits)
    shapes = np.stack([family.pipeline, family.micro_batches, family.virtual > 1, _known(family)])
    distinct, which = np.unique(shapes, axis=1, return_inverse=True)
    p, n, chunked, known = distinct[:, :, None]
    left = p - np.arange(int(p.max()))
    alive = np.where(known, _alive(left, p, n, chunked > 0), 1)
    # The small addition keeps a stage that is exactly full from being rounded down.
    held = np.floor(room / (states + alive * kept) * (1 + 1e-9) + 1e-9)
    enough = np.where(left > 0, held, 0).sum(axis=1) >= len(layers)
    return np.asarray(fits & enough[which.ravel()])


def _known(family: Family) -> Bools:
    """Whether it is known how many micro-batches a member's schedule has in flight."""
    return np.array([name in OWN_PATHS_KNOWN for name in family.schedule])
