"""What a block holds while its forward or backward runs, op by op, as PyTorch's autograd frees it.

Forward: a tensor lives until the last op that takes it, or to its backward if it is kept. Backward,
in reverse: an op needs the gradient of its output and the tensors that it reads, and makes the
gradients of its inputs; a tensor is freed after the last op that reads it, a gradient after the op
whose output it belongs to. What was not kept is rebuilt when it is first read; in its window, where
it has one; or, where the framework re-runs the whole block or the stage recomputes ahead, before
the block's backward begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from solver.costs.pipeline import Block, Op
from solver.recompute.choice import Choice, keep_all, needed_tensors


@dataclass(frozen=True)
class Passes:
    """Bytes of one block for one micro-batch: kept between its passes, and the peak in each.

    Peaks count everything of this block and micro-batch, what is kept included. ``early`` bytes
    are there before its backward begins, while other blocks run theirs.
    """

    kept: float
    forward_peak: float
    backward_peak: float
    early: float = 0.0


@lru_cache(maxsize=4096)
def passes(block: Block, choice: Choice, group: int = 1, *, ahead: bool = False) -> Passes:
    """The passes of a block under a choice.

    ``group``: blocks recomputed together, of which this is one; only the first one's input is
    kept, and all of them are rebuilt before the last one's backward. ``ahead``: its stage
    recomputes ahead, all that stands in no window of the block itself.
    """
    held = needed_tensors(block) - set(choice.recomputed)
    if choice.whole:
        everything = keep_all(block)
        rebuilt = passes(block, everything)
        boundary = _gradient_bytes(_output(block))
        others = (group - 1) * everything.kept_bytes
        return Passes(
            choice.kept_bytes,
            _forward_peak(block, held),
            others + max(rebuilt.forward_peak + boundary, rebuilt.backward_peak),
        )
    at = {op.name: position for position, op in enumerate(block.ops)}
    in_window = {p.tensor: at[p.window] for p in choice.placed if not p.following}
    early = frozenset(placed.tensor for placed in choice.placed if placed.following)
    if ahead:
        early = needed_tensors(block).intersection(choice.recomputed).difference(in_window)
    peak = _backward_peak(
        block,
        held | early,
        frozenset(choice.recomputed),
        frozenset(choice.repeated),
        in_window,
    )
    waiting = sum(op.output_bytes for op in block.ops if op.name in early)
    shares = dict(choice.shares)
    apart = sum(shares.get(op.name, 0.0) * op.output_bytes for op in block.ops)
    return Passes(choice.kept_bytes, _forward_peak(block, held) + apart, peak + apart, waiting)


def _forward_peak(block: Block, held: frozenset[str]) -> float:
    """The most that forward holds at once."""
    output = _output(block).name
    last_use = {name: at for at, op in enumerate(block.ops) for name in op.inputs}
    live = {"x": block.input_bytes}
    peak = 0.0
    for at, op in enumerate(block.ops):
        live[op.name] = op.output_bytes
        peak = max(peak, sum(live.values()) + op.forward_bytes)
        for name in (*op.inputs, op.name):
            idle = name not in held and last_use.get(name, at) <= at
            if idle and name not in ("x", output):
                live.pop(name, None)
    return peak


def _backward_peak(
    block: Block,
    held: frozenset[str],
    rebuilt: frozenset[str],
    repeated: frozenset[str],
    in_window: dict[str, int],
) -> float:
    """The most that backward holds at once, beginning with what is there by then (``held``).

    A repeated op's output stands beside the kept one while its backward runs. ``in_window``: what
    is rebuilt while the op of that position runs its backward.
    """
    made = {op.name: op for op in block.ops}
    differentiable = _differentiable(block)
    first_read: dict[str, int] = {}
    for at, op in enumerate(block.ops):
        for name in op.backward_reads:
            first_read.setdefault(name, at)
    output = _output(block)
    live = {name: made[name].output_bytes for name in held} | {"x": block.input_bytes}
    gradients = {output.name: _gradient_bytes(output)}
    peak = sum(live.values()) + sum(gradients.values())
    for at in range(len(block.ops) - 1, -1, -1):
        op = block.ops[at]
        passing = _rebuild(op.backward_reads, live, rebuilt, made)
        for name, window in in_window.items():
            if window == at and name in first_read:
                live[name] = made[name].output_bytes
        for name in op.inputs:
            if name == "x":
                gradients[name] = block.input_bytes
            elif name in differentiable and op.name in gradients:
                gradients[name] = _gradient_bytes(made[name])
        total = sum(live.values()) + sum(gradients.values())
        twice = op.output_bytes if op.name in repeated else 0.0
        peak = max(peak, total + passing + twice + op.backward_bytes)
        gradients.pop(op.name, None)
        for name in op.backward_reads:
            if name != "x" and first_read[name] >= at:
                live.pop(name, None)
    return peak


def _rebuild(
    names: tuple[str, ...], live: dict[str, float], rebuilt: frozenset[str], made: dict[str, Op]
) -> float:
    """Make these tensors live; answers with the bytes of others that exist only to make them."""
    wanted = [name for name in names if name not in live and name in rebuilt]
    passing: dict[str, float] = {}
    while wanted:
        name = wanted.pop()
        for source in made[name].inputs:
            if source in rebuilt and source not in live and source not in passing:
                passing[source] = made[source].output_bytes
                wanted.append(source)
    for name in names:
        if name in rebuilt:
            passing.pop(name, None)
            live[name] = made[name].output_bytes
    return sum(passing.values())


def _differentiable(block: Block) -> set[str]:
    """Tensors that depend on the block's input; masks do not."""
    found: set[str] = {"x"}
    for op in block.ops:
        if found.intersection(op.inputs):
            found.add(op.name)
    return found


def _output(block: Block) -> Op:
    """The op that makes the block's output: the last one that takes anything."""
    return next((op for op in reversed(block.ops) if op.inputs), block.ops[-1])


def _gradient_bytes(op: Op) -> float:
    return op.output_bytes if op.gradient_bytes is None else op.gradient_bytes
