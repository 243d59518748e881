"""The check of recompute in windows: every place legal, no window overfull, bytes counted again.

Written from the definitions alone; shares no code with the optimisation, as ``verify.py``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from solver.costs.pipeline import Block, OpKind, PipelineCosts
from solver.errors import SolverFailed
from solver.plan import BlockRecompute, PlacedTensor, Stage

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Places:
    """What a stage's placements cost: seconds taken off the backward's recompute, seconds added to
    its collectives, and the largest of rebuilt, early and working bytes of any block.
    """

    hidden: float
    charged: float
    buffer: float


def check_places(costs: PipelineCosts, stage: Stage) -> Places:
    """Derive the windows of a stage again.

    Raises:
        SolverFailed: A tensor stands where it may not, or a window holds more than it can.
    """
    named = {block.name: block for block in costs.blocks}
    entries = [entry for entry in stage.recompute for _ in range(entry.count)]
    in_order = [name for name, count in stage.blocks for _ in range(count)]
    if [entry.block for entry in entries] != in_order:
        raise SolverFailed(f"Stage {stage.index} does not say which block places what.")
    used: dict[tuple[int, str], float] = defaultdict(float)
    early = [0.0] * (len(entries) + 1)
    hidden = 0.0
    for at, entry in enumerate(entries):
        block = named[entry.block]
        following = named[entries[at + 1].block] if at + 1 < len(entries) else None
        seconds = {op.name: op.forward_seconds for op in block.ops}
        sizes = {op.name: op.output_bytes for op in block.ops}
        _check_legal(block, following, entry)
        if stage.recomputes_ahead and costs.overlapping.apart:
            _check_apart(block, entry)
        for placed in entry.placed:
            used[at + placed.following, placed.window] += seconds[placed.tensor]
            hidden += seconds[placed.tensor]
            if placed.following:
                early[at + 1] += sizes[placed.tensor]
    for (at, window), seconds_used in used.items():
        op = next(op for op in named[entries[at].block].ops if op.name == window)
        length = op.backward_seconds if op.window_seconds is None else op.window_seconds
        if seconds_used * costs.overlapping.slowdown > length * (1 + TOLERANCE):
            raise SolverFailed(f"Window '{window}' of stage {stage.index} holds more than it can.")
    buffer = 0.0
    for at, entry in enumerate(entries):
        block = named[entry.block]
        sizes = {op.name: op.output_bytes for op in block.ops}
        rebuilt = sum(sizes[name] for name in entry.recomputed)
        buffer = max(buffer, rebuilt + early[at] + block.working_bytes)
    return Places(hidden, hidden * costs.overlapping.charge, buffer)


def _check_legal(block: Block, following: Block | None, entry: BlockRecompute) -> None:
    """Whether each tensor may stand where it does, and finds its inputs there."""
    ops = {op.name: op for op in block.ops}
    number = {op.name: at for at, op in enumerate(block.ops)}
    moments = {placed.tensor: _moment(block, following, placed) for placed in entry.placed}
    again = set(entry.recomputed)
    if len(moments) < len(entry.placed) or not set(moments) <= again:
        raise SolverFailed(f"'{entry.block}' places a tensor twice, or one it does not recompute.")
    for placed in entry.placed:
        op = ops[placed.tensor]
        if op.kind is not OpKind.COMPUTE:
            raise SolverFailed(f"'{op.name}' is communication and cannot hide under any.")
        for source in _sources(block, op.name):
            if source in again and moments.get(source, (2, 0)) > moments[op.name]:
                raise SolverFailed(f"'{op.name}' is placed before its input '{source}'.")
        if placed.following:
            continue
        readers = _readers(block, op.name, again)
        if any(number[reader] >= number[placed.window] for reader in readers):
            raise SolverFailed(f"'{op.name}' is placed after the backward that reads it.")


def _check_apart(block: Block, entry: BlockRecompute) -> None:
    """Whether what runs ahead of the backward does without what its windows make."""
    late = {placed.tensor for placed in entry.placed}
    for name in set(entry.recomputed) - late:
        if _sources(block, name) & late:
            raise SolverFailed(f"'{name}' runs ahead of an input that a window makes.")


def _moment(block: Block, following: Block | None, placed: PlacedTensor) -> tuple[int, int]:
    """Where a window stands in time: the following block's first, of a block its last op's first.

    Raises:
        SolverFailed: There is no such window.
    """
    where = following if placed.following else block
    for at, op in enumerate(where.ops if where is not None else ()):
        if op.name == placed.window and op.kind is OpKind.COMMUNICATION:
            return (0 if placed.following else 1, -at)
    raise SolverFailed(f"'{placed.tensor}' is placed in a window '{placed.window}' that is none.")


def _sources(block: Block, name: str) -> set[str]:
    """The inputs of an op, looked up through ops that only hand on theirs."""
    ops = {op.name: op for op in block.ops}
    found: set[str] = set()
    for source in ops[name].inputs:
        if source != "x":
            found |= _sources(block, source) if ops[source].hands_on else {source}
    return found


def _readers(block: Block, name: str, again: set[str]) -> set[str]:
    """Ops whose backward reads a tensor, or one that is recomputed from it."""
    reached = {name}
    for op in block.ops:
        if op.name in again and reached.intersection(op.inputs):
            reached.add(op.name)
    return {op.name for op in block.ops if reached.intersection(op.backward_reads)}


def places_anything(stage: Stage) -> bool:
    """Whether some tensor of a stage stands in a window."""
    return any(entry.placed for entry in stage.recompute)
