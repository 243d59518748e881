"""One way to run a block: which needed tensors it keeps, and what the rest costs to rebuild."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import Block


@dataclass(frozen=True)
class Placed:
    """A tensor that is recomputed in a window: of its own block, or of the following one.

    ``window`` names the communication op; the following block's backward comes first.
    """

    tensor: str
    window: str
    following: bool


@dataclass(frozen=True)
class Choice:
    """A block's recompute decision and its three costs.

    ``kept_bytes`` is held per in-flight micro-batch (the block's input included), ``seconds`` is
    added to the backward of every micro-batch, ``recompute_bytes`` is alive while the block's
    backward runs. ``recomputed`` names the rebuilt tensors in op order. ``whole``: the framework
    re-runs the block's whole forward, and ``seconds`` says so. ``repeated`` names ops that the
    framework runs again although their outputs are kept; their time and bytes are in the sums.
    ``shares``: tensors of which a framework keeps a part only, or which it keeps although nobody
    needs them, with the share kept; the sums count that share as kept and the rest as run again.

    ``placed`` says which of them are rebuilt in windows, in op order; ``hidden_seconds`` is their
    own time, no part of ``seconds``. ``early_bytes``: those in windows of the following block,
    alive while that block's backward runs too.

    ``offloaded`` names tensors, the input ``x`` among them, that wait in host memory, each with the
    share of it that does; ``offloaded_bytes`` is what that comes to, no part of ``kept_bytes``.
    """

    kept_bytes: float
    seconds: float
    recompute_bytes: float
    recomputed: tuple[str, ...]
    whole: bool = False
    repeated: tuple[str, ...] = ()
    shares: tuple[tuple[str, float], ...] = ()
    placed: tuple[Placed, ...] = ()
    hidden_seconds: float = 0.0
    early_bytes: float = 0.0
    offloaded: tuple[tuple[str, float], ...] = ()
    offloaded_bytes: float = 0.0


@dataclass(frozen=True, eq=False)
class Picked(Sequence[Choice]):
    """Some choices of one or more sequences, put in words when they are asked for.

    ``rows``, shape (choices,), count through the sequences, one after the other.
    """

    parts: tuple[Sequence[Choice], ...]
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Choice: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Choice]: ...
    def __getitem__(self, at: int | slice) -> Choice | Sequence[Choice]:
        """One choice; or several."""
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        row = int(self.rows[at])
        for part in self.parts:
            if row < len(part):
                return part[row]
            row -= len(part)
        raise IndexError(at)


def needed_tensors(block: Block) -> frozenset[str]:
    """Tensors other than the input that some op of the block reads in its backward."""
    return frozenset(name for op in block.ops for name in op.backward_reads if name != "x")


def choice_keeping(block: Block, kept: Collection[str]) -> Choice:
    """The choice that keeps these needed tensors and recomputes the other needed ones.

    An op is run again if its tensor is needed and not kept, or if an op run again reads it and it
    is not kept (``solver.costs.pipeline``).
    """
    needed = needed_tensors(block)
    held = needed.intersection(kept)
    wanted = set(needed - held)
    for op in reversed(block.ops):
        if op.name in wanted:
            wanted.update(name for name in op.inputs if name != "x" and name not in held)
    rebuilt = [op for op in block.ops if op.name in wanted]
    return Choice(
        kept_bytes=block.input_bytes + sum(o.output_bytes for o in block.ops if o.name in held),
        seconds=sum(op.forward_seconds for op in rebuilt),
        recompute_bytes=sum(op.output_bytes for op in rebuilt),
        recomputed=tuple(op.name for op in rebuilt),
    )


def keep_all(block: Block) -> Choice:
    """Recompute nothing."""
    return choice_keeping(block, needed_tensors(block))


def offloading(block: Block, choice: Choice, most_bytes: float) -> Choice:
    """The choice with up to ``most_bytes`` of what it keeps in host memory instead.

    Tensors leave in the order in which they are made, the input first: those have longest to go,
    and are needed last. All but the last one leave whole.
    """
    away = min(choice.kept_bytes, most_bytes)
    if away <= 0:
        return choice
    kept = needed_tensors(block).difference(choice.recomputed)
    sizes = [("x", block.input_bytes)]
    sizes += [(op.name, op.output_bytes) for op in block.ops if op.name in kept]
    left, shares = away, []
    for name, size in sizes:
        if size > 0 and left > 0:
            shares.append((name, min(left / size, 1.0)))
            left -= size
    return replace(
        choice,
        kept_bytes=choice.kept_bytes - away,
        offloaded=tuple(shares),
        offloaded_bytes=away,
    )
