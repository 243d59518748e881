"""What the other variants of a layout can gain over the first.

The first variant shards states over all replicas, neighbouring ranks being replicas. Another takes
as long for every pass and holds more; it can be faster only by the time that the first one's
weights and gradients are on their way without being hidden. Let P be the longest path of a plan
under the first variant: it begins with the gather of one stage and ends with the reduction and the
update of one, and no other part of it differs. So the plan takes at most

    max over stages of (gather exposed here - there) + the same of reduction + that of update

longer than under the other variant. A stage of a plan that takes less than L does n times the work
of its blocks within L, so that only stages of blocks worth L / n matter: the maximum is that of a
fractional knapsack over the kinds of block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from solver.costs.pipeline import Block, Op, PipelineCosts


def gain(
    first: PipelineCosts, other: PipelineCosts | None = None, *, longest: float = math.inf
) -> float:
    """Seconds per iteration by which the other variant cannot be surpassed.

    Args:
        first: The variant that shards most.
        other: Another; None: any, even one whose states need not move at all.
        longest: Plans that take longer do not matter; one stage per device if it is finite.
    """
    room = longest / first.micro_batches
    ours = first.blocks
    theirs = ours if other is None else other.blocks
    share = 0.0 if other is None else 1.0
    pairs = list(zip(ours, theirs, strict=True))
    gathers = _exposed(
        first,
        room,
        [a.gather_seconds - share * b.gather_seconds for a, b in pairs],
        [a.gather_seconds - first.gather_overlap * a.forward_seconds for a in ours],
    )
    reductions = _exposed(
        first,
        room,
        [a.gradient_seconds - share * b.gradient_seconds for a, b in pairs],
        [a.gradient_seconds - first.gradient_overlap * a.backward_seconds for a in ours],
    )
    updates = 0.0
    if other is not None:
        updates = _most(first, room, [a.optimizer_seconds - b.optimizer_seconds for a, b in pairs])
    return gathers + reductions + updates


def no_better(other: PipelineCosts, first: PipelineCosts) -> bool:
    """Whether every plan under ``other`` is one under ``first`` too and takes no longer there."""
    return (
        other.sequence == first.sequence
        and other.micro_batches == first.micro_batches
        and other.gather_overlap == first.gather_overlap
        and other.gradient_overlap == first.gradient_overlap
        and other.overlapping == first.overlapping
        and other.devices == first.devices
        and other.capacity_bytes <= first.capacity_bytes
        and other.reserved_bytes >= first.reserved_bytes
        and other.send_seconds >= first.send_seconds
        and other.fixed_seconds >= first.fixed_seconds
        and all(map(_block_no_better, other.blocks, first.blocks))
    )


def _block_no_better(other: Block, first: Block) -> bool:
    return other is first or (
        other.input_bytes == first.input_bytes
        and other.rerun_seconds == first.rerun_seconds
        and other.modules == first.modules
        and other.states.total >= first.states.total
        and other.working_bytes >= first.working_bytes
        and other.gather_seconds >= first.gather_seconds
        and other.gradient_seconds >= first.gradient_seconds
        and other.optimizer_seconds >= first.optimizer_seconds
        and len(other.ops) == len(first.ops)
        and all(map(_op_no_better, other.ops, first.ops))
    )


def _op_no_better(other: Op, first: Op) -> bool:
    """Tensors, weight gradients and windows have to be the same; times may be longer."""
    return (
        other is first
        or other == first
        or (
            other.name == first.name
            and other.inputs == first.inputs
            and other.backward_reads == first.backward_reads
            and other.output_bytes == first.output_bytes
            and other.kind == first.kind
            and other.weight_seconds == first.weight_seconds
            and other.weight_held_bytes == first.weight_held_bytes
            and other.idle_seconds == first.idle_seconds
            and other.forward_seconds >= first.forward_seconds
            and other.backward_seconds >= first.backward_seconds
        )
    )


def _exposed(
    costs: PipelineCosts, room: float, differences: Sequence[float], exposed: Sequence[float]
) -> float:
    """The most by which a stage's exposed communication is above another's.

    Of two exposed times, each at least 0, the difference is at most that of the whole times, and
    at most the first.
    """
    return min(_most(costs, room, differences), _most(costs, room, exposed))


def _most(costs: PipelineCosts, room: float, values: Sequence[float]) -> float:
    """The most that the blocks of one stage add up to, blocks of negative value left out."""
    counts = Counter(costs.sequence)
    work = [block.forward_seconds + block.backward_seconds for block in costs.blocks]
    kinds = [kind for kind in counts if values[kind] > 0.0]
    kinds.sort(key=lambda kind: work[kind] / values[kind])
    total, left = 0.0, room
    for kind in kinds:
        taken = float(counts[kind])
        if work[kind] > 0.0:
            taken = min(taken, left / work[kind])
        total += taken * values[kind]
        left -= taken * work[kind]
    return total
