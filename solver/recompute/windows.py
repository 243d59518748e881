"""Windows: the parts of a block's backward in which its links work and its compute units wait.

In the backward of a block, its ops in reverse, each communication op is a window at the op's place.
Recomputation hides there (Lynx, arXiv 2406.08756; Lancet, MLSys 2024, for all-to-alls).
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.costs.pipeline import Block, OpKind, Overlapping


@dataclass(frozen=True)
class Window:
    """A window of a block: its op, the op's position, and the recompute seconds that it takes."""

    op: str
    position: int
    seconds: float


def windows(block: Block, overlapping: Overlapping) -> tuple[Window, ...]:
    """The windows of a block in the order of its backward, the last op's first."""
    return tuple(
        Window(op.name, position, op.idle_seconds / overlapping.slowdown)
        for position, op in reversed(list(enumerate(block.ops)))
        if op.kind is OpKind.COMMUNICATION and op.idle_seconds > 0
    )


def placeable(block: Block) -> frozenset[str]:
    """Names of the ops that some choice may run again in a window.

    A placed op's inputs have to be there by then: the block's input, kept (so needed), or placed
    as well. Communication is never placed; an op that only hands its input on needs no place.
    """
    needed = {name for op in block.ops for name in op.backward_reads}
    rerun = set(needed)
    for op in reversed(block.ops):
        if op.name in rerun:
            rerun.update(op.inputs)
    there, found = {"x"} | needed, set()
    early = {"x"}
    for op in block.ops:
        ready = all(name in there or name in early for name in op.inputs)
        if op.kind is OpKind.COMPUTE and ready:
            early.add(op.name)
            if op.name in rerun:
                found.add(op.name)
        elif op.hands_on and ready:
            early.add(op.name)
    return frozenset(found)
