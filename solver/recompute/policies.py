"""Named recompute policies: what frameworks offer instead of a free choice per tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from solver.costs.pipeline import Block
from solver.recompute.choice import Choice, choice_keeping, keep_all, needed_tensors


def full(block: Block) -> Choice:
    """Keep only the block's input and run its forward again (Chen et al. 2016, arXiv 1604.06174).

    Where the framework re-runs the whole block, outputs that nobody needs included, its
    ``rerun_seconds`` are charged instead of the time of what is needed.
    """
    if not block.checkpointable:
        return keep_all(block)
    choice = choice_keeping(block, ())
    if block.rerun_seconds is None:
        return choice
    return Choice(
        kept_bytes=choice.kept_bytes,
        seconds=max(choice.seconds, block.rerun_seconds),
        recompute_bytes=choice.recompute_bytes,
        recomputed=choice.recomputed,
        whole=True,
    )


def selective(block: Block, modules: tuple[str, ...]) -> Choice:
    """Recompute the tensors of these modules only (Korthikanti et al. 2022, arXiv 2205.05198)."""
    if not block.checkpointable:
        return keep_all(block)
    chosen = [module for module in block.modules if module.name in modules]
    dropped = {name for module in chosen for name in module.dropped}
    choice = choice_keeping(block, needed_tensors(block) - dropped)
    repeated = {name for module in chosen for name in module.repeated}.difference(choice.recomputed)
    again = [op for op in block.ops if op.name in repeated]
    return replace(
        choice,
        seconds=choice.seconds + sum(op.forward_seconds for op in again),
        recompute_bytes=choice.recompute_bytes + sum(op.output_bytes for op in again),
        repeated=tuple(op.name for op in again),
    )


def saving(block: Block, shares: Mapping[str, float]) -> Choice:
    """Run the whole forward again but for what was saved: these tensors, or a share of each.

    Selective checkpoint contexts do that (PyTorch, ``torch.utils.checkpoint``): a saved output is
    there whether backward reads it or not, and every op that is not saved runs again.
    """
    if not block.checkpointable:
        return keep_all(block)
    made = [op for op in block.ops if op.inputs]
    kept = {op.name: shares.get(op.name, 0.0) for op in made}
    needed = needed_tensors(block)
    again = [op for op in made if kept[op.name] < 1.0]
    partly = {n: share for n, share in kept.items() if share and (share < 1.0 or n not in needed)}
    return Choice(
        kept_bytes=block.input_bytes + sum(kept[op.name] * op.output_bytes for op in made),
        seconds=sum((1.0 - kept[op.name]) * op.forward_seconds for op in again),
        recompute_bytes=sum((1.0 - kept[op.name]) * op.output_bytes for op in again),
        recomputed=tuple(op.name for op in again),
        shares=tuple(partly.items()),
    )


def least_memory(block: Block) -> Choice:
    """Recompute every needed tensor, whatever frameworks offer: the least that is ever kept."""
    return choice_keeping(block, ())
