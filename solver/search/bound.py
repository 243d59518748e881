"""A lower bound of a layout's iteration time that costs next to nothing.

However the blocks are cut, some stage holds at least the p-th part of the work, and it does that
part for every micro-batch: T >= n sum(F + B) / p. Where devices differ, every block is counted as
on the quickest of them. Likewise every micro-batch passes every block
once, T >= sum(F + B) + what the sends between neighbouring stages take, there and back.
"""

from __future__ import annotations

from solver.costs.pipeline import PipelineCosts


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
