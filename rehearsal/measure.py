"""The small model's costs, measured on this machine: seconds of every op, bytes that it saves."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from rehearsal.model import Embedding, Head, Shape, layer, loss
from solver.targets.pytorch_runtime import Op, PlannedLayer

REPEATS = 5
"""Of every measurement; the median counts."""


def profile(shape: Shape, layers: int) -> dict[str, Any]:
    """A request's ``model.profile`` of the small model, one micro-batch on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(shape.micro_batch, shape.sequence, shape.hidden, requires_grad=True)
    tokens = torch.randint(shape.vocabulary, (shape.micro_batch, shape.sequence)).float()
    measured = layer(shape)
    return {
        "blocks": {
            "embedding": _whole(Embedding(shape), tokens, "embedding_rows", lambda out: out.sum()),
            "layer": {
                "state_bytes": _states(measured),
                "input_bytes": _bytes(x),
                "ops": _ops(measured, x),
            },
            "head": _whole(Head(shape), x, "logits", lambda out: loss(out, tokens)),
        },
        "sequence": [["embedding", 1], ["layer", layers], ["head", 1]],
    }


def _states(module: nn.Module) -> float:
    """Weights and gradients, in fp32."""
    return float(sum(2 * _bytes(parameter) for parameter in module.parameters()))


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _ops(measured: PlannedLayer, x: Tensor) -> list[dict[str, Any]]:
    made: dict[str, Tensor] = {"x": x.detach()}
    owners = {made["x"].untyped_storage().data_ptr(): "x"}
    found = []
    for op in measured.ops:
        inputs = [made[name].detach().requires_grad_() for name in op.inputs]
        saved: list[Tensor] = []
        with saved_tensors_hooks(lambda it: saved.append(it) or it, lambda it: it):  # type: ignore[func-returns-value]  # noqa: B023
            output = op.function(*inputs)
        made[op.name] = output.detach()
        owners[output.untyped_storage().data_ptr()] = op.name
        names = [owners.get(it.untyped_storage().data_ptr()) for it in saved]
        aside = {
            it.untyped_storage().data_ptr(): it.untyped_storage().nbytes()
            for it, name in zip(saved, names, strict=True)
            if name is None
            and not isinstance(it, nn.Parameter)
            and not isinstance(it._base, nn.Parameter)
        }
        forward, backward = _seconds(op, inputs)
        found.append(
            {
                "name": op.name,
                "inputs": list(op.inputs),
                "forward_seconds": forward,
                "backward_seconds": backward,
                "output_bytes": float(_bytes(output) + sum(aside.values())),
                "backward_reads": sorted({name for name in names if name is not None}),
            }
        )
    return found


def _seconds(op: Op, inputs: list[Tensor]) -> tuple[float, float]:
    forward, backward = [], []
    for _ in range(REPEATS):
        started = time.perf_counter()
        output = op.function(*inputs)
        between = time.perf_counter()
        output.backward(torch.ones_like(output))
        forward.append(between - started)
        backward.append(time.perf_counter() - between)
    return statistics.median(forward), statistics.median(backward)


def _whole(
    module: nn.Module, x: Tensor, name: str, scalar: Callable[[Tensor], Tensor]
) -> dict[str, Any]:
    """A block of one op that keeps what it saves."""
    saved: dict[int, int] = {}
    forward, backward = [], []

    def note(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter) and not isinstance(tensor._base, nn.Parameter):
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    for _ in range(REPEATS):
        saved.clear()
        started = time.perf_counter()
        with saved_tensors_hooks(note, lambda it: it):
            output = scalar(module(x))
        between = time.perf_counter()
        output.backward()
        forward.append(between - started)
        backward.append(time.perf_counter() - between)
    own = x.untyped_storage().data_ptr()
    aside = sum(size for address, size in saved.items() if address != own)
    return {
        "state_bytes": _states(module),
        "input_bytes": _bytes(x),
        "ops": [
            {
                "name": name,
                "inputs": ["x"],
                "forward_seconds": statistics.median(forward),
                "backward_seconds": statistics.median(backward),
                "output_bytes": float(aside),
                "backward_reads": ["x", name],
            }
        ],
    }
