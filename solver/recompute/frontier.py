"""The frontier of a block: every choice that some memory budget could make the best.

The program, for one block (Checkmate, arXiv 1910.02653, and Lynx, arXiv 2406.08756, solve its like
per layer for one budget; here for all budgets at once)::

    keep[i] in {0, 1}   for needed tensors i         rerun[i] in {0, 1}  for all tensors i
    keep[i] + rerun[i] >= 1                          needed tensors are kept or recomputed
    rerun[i] <= keep[j] + rerun[j]                   for every input j of i other than x
    minimise  sum rerun[i] forward_seconds[i],  sum keep[i] output_bytes[i],
              sum rerun[i] output_bytes[i]           in the sense of Pareto

A stage's memory is in-flight x kept + the largest recompute bytes, with in-flight at least 1. So
a choice p may replace q whenever it is no slower, keeps no more, and its kept + recompute bytes are
no more: what p adds to the recompute buffer it saves at least once in kept bytes. That is the
dominance used, and it leaves a frontier of moderate size.

The solver walks the ops from last to first with labels (Pareto-best partial choices), one set per
set of earlier tensors still demanded; a transformer layer never has many demanded at once.
``program.py`` states the same program for OR-Tools; the tests hold both, and plain enumeration,
against each other.

**Offload.** Where up to b bytes of what a block keeps may wait in host memory at no cost in time
(``costs/offloading.py``), a choice keeps max(kept - b, 0) on the device. For two partial choices
the smallest difference of that, whatever is added to both, is the one of max(kept, b). So with
max(kept, b) + rebuilt in the third place of the dominance the walk finds that frontier as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import Block
from solver.errors import BadRequest
from solver.recompute.choice import Choice, needed_tensors, offloading

MOST_LABELS = 200_000
"""Partial choices beyond which a block is refused; a transformer layer has some hundreds."""

TOLERANCE = 1e-12
"""Relative size below which two sums of the same bytes or seconds count as equal."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Frontier:
    """The choices of a block, by ascending kept bytes, none replaceable by another.

    ``kept``, ``seconds`` and ``rebuilt`` have shape (choices,).
    """

    choices: Sequence[Choice]
    kept: Floats
    seconds: Floats
    rebuilt: Floats


def frontier_of(choices: list[Choice]) -> Frontier:
    """A frontier of exactly these choices (a policy's single one, or a framework's few)."""
    ordered = tuple(sorted(choices, key=lambda c: (c.kept_bytes, c.seconds, c.recompute_bytes)))
    return Frontier(
        choices=ordered,
        kept=np.array([choice.kept_bytes for choice in ordered]),
        seconds=np.array([choice.seconds for choice in ordered]),
        rebuilt=np.array([choice.recompute_bytes for choice in ordered]),
    )


def frontier(block: Block, offload_bytes: float = 0.0) -> Frontier:
    """All choices of a block that are best for some budget.

    Args:
        block: What is decided about.
        offload_bytes: What of it may wait in host memory, its input included.

    Raises:
        BadRequest: If the block has too many tensors to be decided exactly.
    """
    names = [op.name for op in block.ops]
    number = {name: i for i, name in enumerate(names)}
    needed = needed_tensors(block)
    # Labels by the set of earlier tensors demanded (a bit mask): rows (kept, seconds, rebuilt) and
    # the mask of the tensors run again.
    labels: dict[int, _Labels] = {0: _Labels(np.zeros((1, 3)), [0])}
    free = max(offload_bytes - block.input_bytes, 0.0)
    for i in reversed(range(len(block.ops))):
        op, bit = block.ops[i], 1 << i
        inputs = sum({1 << number[name] for name in op.inputs if name != "x"})
        keep = np.array([op.output_bytes, 0.0, 0.0])
        rerun = np.array([0.0, op.forward_seconds, op.output_bytes])
        grown: dict[int, list[_Labels]] = {}
        for demanded, label in labels.items():
            rest = demanded & ~bit
            if op.name not in needed and not demanded & bit:
                grown.setdefault(rest, []).append(label)
                continue
            again = _Labels(label.costs + rerun, [mask | bit for mask in label.masks])
            grown.setdefault(rest | inputs, []).append(again)
            if op.name in needed:
                grown.setdefault(rest, []).append(_Labels(label.costs + keep, label.masks))
        labels = {demanded: _merge(parts, free) for demanded, parts in grown.items()}
        if sum(len(label.masks) for label in labels.values()) > MOST_LABELS:
            raise BadRequest(
                f"Block '{block.name}' has too many tensors to choose among exactly.",
                field="model.profile.blocks" if block.name else None,
                hint="Merge ops that are always kept or recomputed together.",
            )
    (final,) = labels.values()
    choices = [
        Choice(
            kept_bytes=block.input_bytes + float(kept),
            seconds=float(seconds),
            recompute_bytes=float(rebuilt),
            recomputed=tuple(name for i, name in enumerate(names) if mask >> i & 1),
        )
        for (kept, seconds, rebuilt), mask in zip(final.costs, final.masks, strict=True)
    ]
    return frontier_of(_offloading(block, choices, offload_bytes) if offload_bytes else choices)


def _offloading(block: Block, choices: list[Choice], offload_bytes: float) -> list[Choice]:
    """The choices with what they may offload, those left that no other may then replace."""
    moved = [offloading(block, choice, offload_bytes) for choice in choices]
    costs = np.array([(c.kept_bytes, c.seconds, c.recompute_bytes) for c in moved])
    return [moved[row] for row in undominated(costs)]


@dataclass(frozen=True, eq=False)
class _Labels:
    """Costs of shape (labels, 3) as (kept, seconds, rebuilt), and the masks of reruns."""

    costs: Floats
    masks: list[int]


def _merge(parts: list[_Labels], free: float) -> _Labels:
    if len(parts) == 1:
        return parts[0]
    costs = np.concatenate([part.costs for part in parts])
    masks = [mask for part in parts for mask in part.masks]
    rows = undominated(costs, free)
    return _Labels(costs[rows], [masks[row] for row in rows])


def undominated(costs: Floats, free: float = 0.0) -> list[int]:
    """Rows of (kept, seconds, rebuilt) that no other row may replace, by ascending kept bytes.

    Row p may replace q if p is no larger in kept, in seconds and in max(kept, free) + rebuilt;
    ``free`` is what of the kept bytes need not stay on the device. Of rows equal within rounding
    one stays, the same whatever their order of arrival among equals.
    """
    kept, seconds = costs[:, 0], costs[:, 1]
    held = np.maximum(kept, free) + costs[:, 2]
    scale = held.max(initial=0.0) * TOLERANCE
    order = np.lexsort((held, seconds, kept))
    if float(np.ptp(held)) <= scale:
        ordered = seconds[order]
        slack = TOLERANCE * ordered.max(initial=0.0)
        before = np.concatenate([[np.inf], np.minimum.accumulate(ordered)[:-1]])
        return [int(row) for row in order[ordered < before - slack]]
    return _staircase(order.tolist(), seconds.tolist(), held.tolist(), scale)


def _staircase(
    order: list[int], seconds: list[float], held: list[float], slack: float
) -> list[int]:
    """Sweep by ascending kept bytes, holding the undominated (seconds, held) as a staircase."""
    stairs_seconds: list[float] = []  # ascending
    stairs_held: list[float] = []  # descending
    remaining: list[int] = []
    for row in order:
        time, bytes_held = seconds[row], held[row]
        at = bisect_right(stairs_seconds, time)
        if at and stairs_held[at - 1] <= bytes_held + slack:
            continue
        start = bisect_left(stairs_seconds, time)
        end = start
        while end < len(stairs_held) and stairs_held[end] >= bytes_held:
            end += 1
        stairs_seconds[start:end] = [time]
        stairs_held[start:end] = [bytes_held]
        remaining.append(row)
    return remaining
