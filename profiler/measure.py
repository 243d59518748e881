"""Seconds and bytes of a block's ops: timed on the device, and looked at as autograd saves them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from profiler.clock import Clock
from profiler.laid import Laid
from solver.request import ProfileOp
from solver.targets.pytorch_runtime import Op

WARM_UP = 2
"""Runs before those that count: libraries choose kernels and allocate in them."""


@dataclass(frozen=True)
class Times:
    """Median seconds of one op: forward, backward, and backward to its inputs alone."""

    forward: float
    backward: float
    inputs_only: float


@dataclass(frozen=True)
class _Seen:
    """An op, and the part of its bytes that is not its output."""

    op: ProfileOp
    aside: float


def measured_ops(laid: Laid, x: Tensor, clock: Clock, repeats: int) -> list[ProfileOp]:
    """The ops of a block, each run by itself on what the ops before it made.

    Args:
        laid: The block.
        x: Its input; token ids, or hidden states that gradients flow to.
        clock: Of the device that holds both.
        repeats: Of every measurement; the median counts.
    """
    made = {"x": x}
    owners = {_address(x): "x"}
    ignored = {
        _address(tensor)
        for tensor in (*laid.constants, *(p for held in laid.parameters.values() for p in held))
    }
    found: list[_Seen] = []
    held_inputs: set[str] = set()
    for op in laid.ops:
        inputs = [_leaf(made[name]) for name in op.inputs]
        output, saved = _saved(op, inputs)
        made[op.name] = output.detach()
        owner = owners.setdefault(_address(output), op.name)
        own = float(_size(output)) if owner == op.name else 0.0
        reads = {owners[key] for key in saved if key in owners}
        aside = sum(size for key, size in saved.items() if key not in owners and key not in ignored)
        parameters = laid.parameters[op.name]
        times = _times(op, inputs, parameters, clock, repeats)
        held = 0.0
        if parameters:
            source = op.inputs[0]
            held = _size(output) + (0.0 if source in held_inputs else _size(made[source]))
            held_inputs.add(source)
        stated = ProfileOp(
            name=op.name,
            inputs=list(op.inputs),
            forward_seconds=times.forward,
            backward_seconds=times.backward,
            weight_seconds=max(0.0, times.backward - times.inputs_only) if parameters else 0.0,
            weight_held_bytes=held,
            output_bytes=own + aside,
            backward_reads=sorted(reads | ({op.name} if aside else set())),
        )
        found.append(_Seen(stated, float(aside)))
    return _apart(found)


def _apart(seen: list[_Seen]) -> list[ProfileOp]:
    """Let what an op saves beside its output stand alone where nobody reads the output.

    A dropout's mask is kept, its output is not; so are the statistics of a last norm and the
    softmax beside a loss. They become an op of their own, which takes the op's forward time: that
    is what rebuilding them costs.
    """
    found = []
    for one in seen:
        op, own = one.op, one.op.output_bytes - one.aside
        readers = {name for other in seen if other is not one for name in other.op.backward_reads}
        if not one.aside or op.name in readers or own == 0.0:
            found.append(op)
            continue
        saved = f"{op.name}_saved"
        found.append(
            ProfileOp(
                name=saved,
                inputs=op.inputs,
                forward_seconds=op.forward_seconds,
                backward_seconds=0.0,
                output_bytes=one.aside,
            )
        )
        changed = {
            "inputs": [*op.inputs, saved],
            "forward_seconds": 0.0,
            "output_bytes": own,
            "backward_reads": [saved if name == op.name else name for name in op.backward_reads],
        }
        found.append(op.model_copy(update=changed))
    return found


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_(tensor.is_floating_point())


def _saved(op: Op, inputs: list[Tensor]) -> tuple[Tensor, dict[int, int]]:
    """An op's output, and the storages that autograd keeps for its backward: address to bytes."""
    saved: dict[int, int] = {}
    alive: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        saved[_address(tensor)] = _size(tensor)
        alive.append(tensor)  # or its address might be used again
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        output = op.function(*inputs)
    return output, saved


def _times(
    op: Op, inputs: list[Tensor], parameters: tuple[Tensor, ...], clock: Clock, repeats: int
) -> Times:
    """Time an op's passes; gradients of weights are added to those of the micro-batch before."""
    leaves = [tensor for tensor in inputs if tensor.requires_grad]
    forward, backward, inputs_only = [], [], []
    for _ in range(WARM_UP + repeats):
        output, seconds = clock.seconds(lambda: op.function(*inputs))
        forward.append(seconds)
        gradient = torch.ones_like(output)
        for leaf in leaves:
            leaf.grad = None
        _, seconds = clock.seconds(lambda: output.backward(gradient))  # noqa: B023
        backward.append(seconds)
        if parameters and leaves:
            output = op.function(*inputs)
            _, seconds = clock.seconds(
                lambda: torch.autograd.grad(output, leaves, gradient)  # noqa: B023
            )
            inputs_only.append(seconds)
    for parameter in parameters:
        parameter.grad = None
    return Times(
        median(forward[WARM_UP:]),
        median(backward[WARM_UP:]),
        median(inputs_only[WARM_UP:]) if inputs_only else 0.0,
    )


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()
