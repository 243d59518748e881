"""A small transformer whose ops have the names of the cost model's tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from solver.targets.pytorch_runtime import Op, PlannedLayer


@dataclass(frozen=True)
class Shape:
    """Sizes of the small model; heads are of 32 channels."""

    hidden: int = 128
    feed_forward: int = 512
    sequence: int = 128
    micro_batch: int = 2
    vocabulary: int = 256

    @property
    def heads(self) -> int:
        """Attention heads."""
        return self.hidden // 32


class _Rotary(torch.autograd.Function):
    """Rotates pairs of channels by their position; its backward rotates back and saves nothing."""

    @staticmethod
    def forward(ctx, joined: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.angles = (cosine, sine)
        return _rotated(joined, cosine, sine)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def]
        cosine, sine = ctx.angles
        return _rotated(gradient, cosine, -sine), None, None


def _rotated(joined: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = joined.unflatten(-1, (-1, 2, 16)).unbind(-2)
    turned = (first * cosine - second * sine, first * sine + second * cosine)
    return torch.stack(turned, dim=-2).flatten(-3)


class _Gated(torch.autograd.Function):
    """SiLU of one half times the other half, saving its input alone as fused kernels do."""

    @staticmethod
    def forward(ctx, joined: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(joined)
        gate, up = joined.chunk(2, dim=-1)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        (joined,) = ctx.saved_tensors
        gate, up = joined.chunk(2, dim=-1)
        sigmoid = torch.sigmoid(gate)
        silu = gate * sigmoid
        slope = sigmoid + silu * (1 - sigmoid)
        return torch.cat([gradient * up * slope, gradient * silu], dim=-1)


NAMES = (
    "attention_norm",
    "query_key",
    "value",
    "rotary",
    "core_attention",
    "attention_projection",
    "attention_residual",
    "feed_forward_norm",
    "feed_forward_in",
    "feed_forward_activation",
    "feed_forward_out",
    "feed_forward_residual",
)
"""The ops of a layer in their order."""


def layer(shape: Shape, recomputed: Iterable[str] = ()) -> PlannedLayer:
    """One transformer layer that recomputes these tensors."""
    hidden, wide = shape.hidden, shape.feed_forward
    norms = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
    query_key, value, out = (
        nn.Linear(hidden, 2 * hidden, bias=False),
        nn.Linear(hidden, hidden, bias=False),
        nn.Linear(hidden, hidden, bias=False),
    )
    into, down = nn.Linear(hidden, 2 * wide, bias=False), nn.Linear(wide, hidden, bias=False)
    angles = torch.outer(
        torch.arange(shape.sequence, dtype=torch.float32),
        10_000.0 ** (-torch.arange(16, dtype=torch.float32) / 16),
    )
    cosine, sine = angles.cos()[:, None], angles.sin()[:, None]

    def attention(turned: Tensor, values: Tensor) -> Tensor:
        def heads(part: Tensor) -> Tensor:
            return part.unflatten(-1, (shape.heads, 32)).transpose(1, 2)

        query, key = turned.chunk(2, dim=-1)
        mixed = functional.scaled_dot_product_attention(
            heads(query), heads(key), heads(values), is_causal=True
        )
        return mixed.transpose(1, 2).flatten(-2)

    ops = (
        Op("attention_norm", ("x",), norms[0]),
        Op("query_key", ("attention_norm",), query_key),
        Op("value", ("attention_norm",), value),
        Op("rotary", ("query_key",), lambda joined: _Rotary.apply(joined, cosine, sine)),
        Op("core_attention", ("rotary", "value"), attention),
        Op("attention_projection", ("core_attention",), out),
        Op("attention_residual", ("x", "attention_projection"), torch.add),
        Op("feed_forward_norm", ("attention_residual",), norms[1]),
        Op("feed_forward_in", ("feed_forward_norm",), into),
        Op("feed_forward_activation", ("feed_forward_in",), _Gated.apply),
        Op("feed_forward_out", ("feed_forward_activation",), down),
        Op("feed_forward_residual", ("attention_residual", "feed_forward_out"), torch.add),
    )
    return PlannedLayer(ops, (*norms, query_key, value, out, into, down), recomputed)


class Embedding(nn.Module):
    """Tokens to vectors; ids come as floats, which pipelines pass between processes."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.table = nn.Embedding(shape.vocabulary, shape.hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        """Rows of the table."""
        return self.table(tokens.long())


class Head(nn.Module):
    """Final norm and logits."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.hidden)
        self.logits = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of every token."""
        return self.logits(self.norm(hidden))


def loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross entropy."""
    return functional.cross_entropy(logits.flatten(0, 1), tokens.long().flatten())


def blocks(shape: Shape, decided: list[frozenset[str]]) -> list[nn.Module]:
    """The whole model: embedding, a layer for each entry of ``decided``, head; same weights always.

    ``decided``: what each layer recomputes.
    """
    torch.manual_seed(1234)
    return [Embedding(shape), *(layer(shape, names) for names in decided), Head(shape)]
