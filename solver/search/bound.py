"""Lower bounds of a layout's iteration time that cost next to nothing.

**Work.** However the blocks are cut, some device holds at least the p-th part of the work W
(forward and backward of one micro-batch through all blocks), and does it for each of n
micro-batches: T >= n W / p. Where devices differ, every block is counted as on the quickest of
them. Every micro-batch passes every block and every send once: T >= W + sends. With one stage per
device each gathers its weights before and reduces its gradients after; what of that a stage's first
forward or last backward does not hide is at least 0, so that all of it together is at least what
all of them together do not hide: p T >= n W + max(0, gathers - hidden) + max(0, reductions -
hidden).

**Bubble.** Every own-path (``partition/paths.py``) is at most T. A mean of them with weights
lambda_c over the stages c is so too, and it counts stage s

    before_s + a_s lambda_s + after_s,   before_s = sum of lambda_c over c > s,
                                         after_s = sum of b_c lambda_c over c < s

times, a_c and b_c being how often path c counts its own stage and each later one. The weights for
which all stages count equally, lambda_{c+1} (a_{c+1} - 1) = lambda_c (a_c - b_c), make the mean a
multiple of W, whatever the cuts: T >= factor W. For 1F1B with n > p the factor is (n + p - 1) / p,
so that no uneven split has less of a bubble than the even one, per unit of work.

**Cuts.** Let M be the longest pass of a stage. Blocks are whole: of the heaviest j p + 1 some stage
holds j + 1 or more, so that M is at least the lightest j + 1 of them. The stage does them n times,
T >= n M; under GPipe every other stage's pass stands once on its own-path, T >= W + (n - 1) M.
Under 1F1B with n > p and stage c the longest, its own-path is W - M + after_c + (n - p + c + 1) M,
and the c + 1 stages up to it hold no more than (c + 1) M, so that after_c >= W - (c + 1) M:
T >= 2 W + (n - p - 1) M.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.schedules import Work, schedule_kind


def quick_bound(
    costs: PipelineCosts,
    devices: int,
    recompute_seconds: tuple[float, ...] = (),
    *,
    splits_backward: bool = False,
    shared: bool = False,
) -> float:
    """Seconds below which no partition and no recompute choice of this layout can come.

    ``recompute_seconds``: per kind, what every block of it recomputes at least; empty: nothing.
    With ``splits_backward`` nobody waits for a micro-batch's gradients of weights. ``shared``:
    several stages share a device.
    """
    of_kind = list(zip(*(one.blocks for one in costs.different), strict=True))
    per_kind = [min(b.forward_seconds + b.backward_seconds for b in blocks) for blocks in of_kind]
    updates = [min(block.optimizer_seconds for block in blocks) for blocks in of_kind]
    if recompute_seconds:
        per_kind = [a + b for a, b in zip(per_kind, recompute_seconds, strict=True)]
    passes: float = sum(per_kind[kind] for kind in costs.sequence)
    steps: float = sum(updates[kind] for kind in costs.sequence) / devices
    share = costs.micro_batches * passes / devices
    if not shared:
        share += _exposed(costs) / devices
    if splits_backward:
        late = [max(block.weight_seconds for block in blocks) for blocks in of_kind]
        passes -= sum(late[kind] for kind in costs.sequence)
    once = passes + 2 * (devices - 1) * costs.send_seconds
    return max(share, once) + steps + costs.fixed_seconds


def _exposed(costs: PipelineCosts) -> float:
    """Gathers and reductions of all stages together that no pass hides, at least."""
    gathers, reductions = [], []
    for one in costs.different:
        hides, hidden = one.gather_overlap, one.gradient_overlap
        gathers.append([b.gather_seconds - hides * b.forward_seconds for b in one.blocks])
        reductions.append([b.gradient_seconds - hidden * b.backward_seconds for b in one.blocks])
    counts = Counter(costs.sequence)
    exposed = 0.0
    for parts in (gathers, reductions):
        least = [min(of_kind) for of_kind in zip(*parts, strict=True)]
        exposed += max(sum(counts[kind] * seconds for kind, seconds in enumerate(least)), 0.0)
    return exposed


def bubble_bound(costs: PipelineCosts, schedule: str, devices: int, chunks: int) -> float:
    """The bubble's bound; 0 where schedule or devices are such that none is known."""
    if costs.devices or schedule not in OWN_PATHS_KNOWN:
        return 0.0
    steps = sum(costs.blocks[kind].optimizer_seconds for kind in costs.sequence) / devices
    return passes_bound(costs, schedule, devices, chunks) + steps


def passes_bound(costs: PipelineCosts, schedule: str, devices: int, chunks: int) -> float:
    """The same of passes and sends alone: it holds however states are sharded over replicas."""
    if costs.devices:
        return 0.0
    factor, sends = bubble(schedule, devices, chunks, costs.micro_batches)
    passes = [block.forward_seconds + block.backward_seconds for block in costs.blocks]
    work = factor * sum(passes[kind] for kind in costs.sequence) + sends * costs.send_seconds
    return work + costs.fixed_seconds


OWN_PATHS_KNOWN = frozenset({"1f1b", "gpipe"})
"""Schedules whose own-paths and micro-batches in flight are known here."""


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


def least_work(
    layout: Layout, costs: PipelineCosts, recompute_seconds: tuple[float, ...] = ()
) -> float:
    """The quick bound of a layout under its schedule."""
    kind = schedule_kind(layout.schedule, layout.virtual_stages)
    return quick_bound(
        costs,
        layout.pipeline_parallel,
        recompute_seconds,
        splits_backward=Work.WEIGHT in kind.work,
        shared=layout.virtual_stages > 1 or kind.even,
    )


def first_bounds(layout: Layout, costs: PipelineCosts) -> tuple[float, float, float]:
    """What can be told of a layout before anything is cut: by passes, by all work, by bubble."""
    shape = (layout.schedule, layout.pipeline_parallel, layout.virtual_stages)
    return passes_bound(costs, *shape), least_work(layout, costs), bubble_bound(costs, *shape)
