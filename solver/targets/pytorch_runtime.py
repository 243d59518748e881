"""Runs layers with the tensors that a plan keeps, and rebuilds the others in backward.

This file is the fixed part of an export for plain PyTorch: its text is written there below the
plan, so it imports nothing but PyTorch. A layer is a list of named ops; each makes one tensor from
``x``, the layer's input, or from tensors made before it. What autograd saves is looked at op by op:
the input and the kept tensors stay, a tensor that is to be recomputed is dropped together with what
its own op saved beside it. The first of them that backward asks for runs the layer's recomputed ops
once more, in their order.

Pipelines are those of ``torch.distributed.pipelining``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef


@dataclass(frozen=True)
class Op:
    """One op of a layer: ``function`` makes the tensor ``name`` from the tensors ``inputs``."""

    name: str
    inputs: tuple[str, ...]
    function: Callable[..., Tensor]


class _Saved:
    """A tensor that autograd saved: there, or to be rebuilt."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor
        self.source: tuple[str, int] | None = None  # the op that saves it, and which it is
        self.shape = (tensor.size(), tensor.stride(), tensor.storage_offset())


@dataclass
class _Pass:
    """One forward pass of a layer, until its backward is over."""

    ops: Sequence[Op]
    recomputed: frozenset[str]
    values: dict[str, Tensor] = field(default_factory=dict)
    own: dict[str, list[_Saved]] = field(default_factory=dict)
    dropped: int = 0
    rebuilt: dict[str, tuple[Tensor, list[Tensor]]] = field(default_factory=dict)

    def rebuild(self) -> None:
        """Run the recomputed ops again, and note what autograd saves of each."""
        made = dict(self.values)
        for op in self.ops:
            if op.name not in self.recomputed:
                continue
            saved: list[Tensor] = []
            inputs = [made[name].detach() for name in op.inputs]
            for tensor in inputs:
                tensor.requires_grad_(tensor.is_floating_point())
            with torch.enable_grad(), saved_tensors_hooks(_noting(saved), saved.__getitem__):
                output = op.function(*inputs)
            made[op.name] = output.detach()
            self.rebuilt[op.name] = (made[op.name], saved)

    def fetch(self, it: _Saved) -> Tensor:
        """A saved tensor as backward wants it."""
        if it.tensor is not None:
            return it.tensor
        assert it.source is not None
        if not self.rebuilt:
            self.rebuild()
        name, number = it.source
        value, saved = self.rebuilt[name]
        tensor = saved[number] if number >= 0 else value.as_strided(*it.shape)
        self.dropped -= 1
        if self.dropped == 0:
            self.rebuilt = {}
        return tensor


def _noting(saved: list[Tensor]) -> Callable[[Tensor], int]:
    def note(tensor: Tensor) -> int:
        saved.append(tensor.detach())
        return len(saved) - 1

    return note


class PlannedLayer(nn.Module):
    """A layer that keeps what its plan says.

    Args:
        ops: In forward order; the last one's tensor is the output.
        modules: What holds the parameters of the ops.
        recomputed: Names of the tensors that are run again in backward.
    """

    def __init__(
        self, ops: Sequence[Op], modules: Iterable[nn.Module], recomputed: Iterable[str]
    ) -> None:
        super().__init__()
        self.ops = tuple(ops)
        self.held = nn.ModuleList(modules)
        self.recomputed = frozenset(recomputed)
        self.kept_bytes = 0

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output; autograd holds what the plan keeps."""
        if x.device.type == "meta" or not torch.is_grad_enabled():
            return self._plain(x)
        now = _Pass(self.ops, self.recomputed)
        made = {"x": x}
        owners: dict[int, tuple[StorageWeakRef, str]] = {}
        _own(owners, "x", x)
        kept: dict[int, int] = {_address(x): _size(x)}
        now.values["x"] = x.detach()
        for op in self.ops:
            pending: list[_Saved] = []
            with saved_tensors_hooks(_pending(pending), now.fetch):
                made[op.name] = op.function(*(made[name] for name in op.inputs))
            _own(owners, op.name, made[op.name])
            for number, it in enumerate(pending):
                name = self._settle(op, number, it, owners, now, kept)
                if name is not None:
                    now.values[name] = made[name].detach()
        self.kept_bytes = sum(kept.values())
        return made[self.ops[-1].name]

    def _plain(self, x: Tensor) -> Tensor:
        made = {"x": x}
        for op in self.ops:
            made[op.name] = op.function(*(made[name] for name in op.inputs))
        return made[self.ops[-1].name]

    def _settle(
        self,
        op: Op,
        number: int,
        it: _Saved,
        owners: dict[int, tuple[StorageWeakRef, str]],
        now: _Pass,
        kept: dict[int, int],
    ) -> str | None:
        """Drop what an op saved if it is to be rebuilt, else count it; the kept tensor's name."""
        tensor = it.tensor
        assert tensor is not None
        name = _owner(owners, tensor)
        if name is not None and name in self.recomputed:
            it.source = (name, -1)
        elif name is None and op.name in self.recomputed and not _is_parameter(tensor):
            it.source = (op.name, number)
        if it.source is not None:
            it.tensor = None
            now.dropped += 1
            return None
        if not _is_parameter(tensor):
            kept[_address(tensor)] = _size(tensor)
        return name if name != "x" else None


def _pending(pending: list[_Saved]) -> Callable[[Tensor], _Saved]:
    def pack(tensor: Tensor) -> _Saved:
        pending.append(_Saved(tensor))
        return pending[-1]

    return pack


def _own(owners: dict[int, tuple[StorageWeakRef, str]], name: str, tensor: Tensor) -> None:
    owners[_address(tensor)] = (StorageWeakRef(tensor.untyped_storage()), name)


def _owner(owners: dict[int, tuple[StorageWeakRef, str]], tensor: Tensor) -> str | None:
    """The op whose tensor this is, or a view of; an address may have been used before."""
    found = owners.get(_address(tensor))
    return None if found is None or found[0].expired() else found[1]


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _is_parameter(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter) or (
        tensor._base is not None and isinstance(tensor._base, nn.Parameter)
    )


def stage_numbers(plan: dict[str, Any], rank: int) -> list[int]:
    """The stages of a pipeline rank, in model order."""
    return list(range(rank, len(plan["stages"]), plan["pipeline_parallel"]))


def stage_layers(plan: dict[str, Any], number: int) -> list[tuple[int, tuple[str, ...]]]:
    """The layers of a stage with the tensors that each recomputes."""
    stage = plan["stages"][number]
    first = stage["first_layer"]
    sets = plan["recomputed"]
    return [(first + at, tuple(sets[key])) for at, key in enumerate(stage["layers"])]


def pipeline_schedule(
    name: str, stages: Sequence[Any], micro_batches: int, loss: Callable[[Tensor, Tensor], Tensor]
) -> Any:
    """The schedule of a plan over this process's stages of ``torch.distributed.pipelining``.

    Args:
        name: ``1f1b`` or ``gpipe``; over several stages 1F1B is the interleaved one.
        stages: This process's ``PipelineStage`` objects, in model order.
        micro_batches: Per iteration.
        loss: From the last stage's output and the target to a scalar.
    """
    from torch.distributed import pipelining

    if len(stages) > 1:
        return pipelining.ScheduleInterleaved1F1B(
            list(stages), micro_batches, loss_fn=loss, scale_grads=False
        )
    kinds = {"1f1b": pipelining.Schedule1F1B, "gpipe": pipelining.ScheduleGPipe}
    return kinds[name](stages[0], micro_batches, loss_fn=loss, scale_grads=False)
