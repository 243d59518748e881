"""Transformer layers in plain PyTorch, and what autograd keeps of them.

Each projection is a layer of its own, as in the Transformers library; norms are LayerNorm, whose
backward reads its input. Everything runs under ``FakeTensorMode``: shapes at true size, no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

DTYPE = torch.bfloat16


def linear(inner: int, columns: int) -> nn.Linear:
    return nn.Linear(inner, columns, bias=False, dtype=DTYPE)


def recomputed(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Keep the inputs only and run the function again in backward."""
    found: Tensor = checkpoint(function, *inputs, use_reentrant=True)
    return found


def rotated(heads: Tensor) -> Tensor:
    """Rotary embedding of (batch, heads, sequence, width), op by op."""
    length, width = heads.shape[-2:]
    angle = torch.empty(length, width, dtype=DTYPE)
    first, second = heads.chunk(2, dim=-1)
    return heads * angle + torch.cat((-second, first), dim=-1) * angle


def fused_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    grouped = query.shape[1] != key.shape[1]
    return functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=grouped
    )


def unfused_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    length, group = query.shape[-2], query.shape[1] // key.shape[1]
    if group > 1:
        key, value = (part.repeat_interleave(group, dim=1) for part in (key, value))
    scores = query @ key.transpose(-1, -2) / 8.0
    weights = functional.softmax(scores + torch.empty(length, length, dtype=DTYPE), dim=-1)
    return weights @ value


class GroupedAttention(nn.Module):
    """Queries, keys and values of heads; keys and values in groups."""

    def __init__(self, hidden: int, heads: int, groups: int, width: int, *, rotary: bool) -> None:
        super().__init__()
        self.width, self.rotary = width, rotary
        self.query = linear(hidden, heads * width)
        self.key = linear(hidden, groups * width)
        self.value = linear(hidden, groups * width)
        self.projection = linear(heads * width, hidden)

    def forward(self, x: Tensor, core: Callable[..., Tensor]) -> Tensor:
        query, key, value = (
            part(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        if self.rotary:
            query, key = rotated(query), rotated(key)
        output: Tensor = self.projection(core(query, key, value).transpose(1, 2).flatten(2))
        return output


class LatentAttention(nn.Module):
    """Multi-head latent attention with compressed queries (arXiv:2405.04434, section 2.1)."""

    def __init__(
        self, hidden: int, heads: int, ranks: tuple[int, int], widths: tuple[int, int, int]
    ) -> None:
        super().__init__()
        self.heads, self.ranks, self.widths = heads, ranks, widths
        nope, rope, value = widths
        self.query_down = linear(hidden, ranks[0])
        self.query_norm = nn.LayerNorm(ranks[0], dtype=DTYPE)
        self.query_up = linear(ranks[0], heads * (nope + rope))
        self.latent_down = linear(hidden, ranks[1] + rope)
        self.latent_norm = nn.LayerNorm(ranks[1], dtype=DTYPE)
        self.latent_up = linear(ranks[1], heads * (nope + value))
        self.projection = linear(heads * value, hidden)

    def forward(self, x: Tensor, core: Callable[..., Tensor]) -> Tensor:
        nope, rope, value_width = self.widths
        query = self.query_up(self.query_norm(self.query_down(x)))
        query = query.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        latent, position = self.latent_down(x).split((self.ranks[1], rope), dim=-1)
        both = self.latent_up(self.latent_norm(latent))
        both = both.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = both.split((nope, value_width), dim=-1)
        plain, turned = query.split((nope, rope), dim=-1)
        query = torch.cat((plain, rotated(turned)), dim=-1)
        position = rotated(position.unsqueeze(1)).expand(-1, self.heads, -1, -1)
        key = torch.cat((key, position), dim=-1)
        output: Tensor = self.projection(core(query, key, value).transpose(1, 2).flatten(2))
        return output


class FeedForward(nn.Module):
    """An MLP; gated ones multiply an activated gate, op by op."""

    def __init__(self, hidden: int, inner: int, *, gated: bool) -> None:
        super().__init__()
        self.up = linear(hidden, inner)
        self.gate = linear(hidden, inner) if gated else None
        self.down = linear(inner, hidden)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            active = functional.gelu(self.up(x))
        else:
            active = functional.silu(self.gate(x)) * self.up(x)
        output: Tensor = self.down(active)
        return output


class Experts(nn.Module):
    """Routed experts under a perfectly even load, weighted before their last product."""

    def __init__(self, hidden: int, inner: int, experts: int, per_token: int) -> None:
        super().__init__()
        self.experts, self.per_token = experts, per_token
        self.router = linear(hidden, experts)
        shape = (experts, hidden, inner)
        self.gate = nn.Parameter(torch.empty(shape, dtype=DTYPE))
        self.up = nn.Parameter(torch.empty(shape, dtype=DTYPE))
        self.down = nn.Parameter(torch.empty(experts, inner, hidden, dtype=DTYPE))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        copies = len(tokens) * self.per_token
        chances = functional.softmax(self.router(tokens).float(), dim=-1)
        weights = chances.topk(self.per_token).values.to(DTYPE).view(self.experts, -1, 1)
        place = torch.empty(copies, dtype=torch.int64)
        dispatched = tokens.index_select(0, place).view(self.experts, -1, x.shape[-1])
        active = functional.silu(dispatched @ self.gate) * (dispatched @ self.up)
        output = ((active * weights) @ self.down).flatten(0, 1)
        rows = place.unsqueeze(1).expand(-1, x.shape[-1])
        merged = torch.zeros_like(tokens).scatter_add(0, rows, output)
        return merged.view_as(x)


class Layer(nn.Module):
    """Norm, attention, residual, norm, MLP, residual. ``module``: the part that is recomputed."""

    def __init__(
        self, hidden: int, attention: nn.Module, feed_forward: nn.Module, *, fused: bool
    ) -> None:
        super().__init__()
        self.first = nn.LayerNorm(hidden, dtype=DTYPE)
        self.attention = attention
        self.second = nn.LayerNorm(hidden, dtype=DTYPE)
        self.feed_forward = feed_forward
        self.core = fused_attention if fused else unfused_attention

    def forward(self, x: Tensor, module: str = "") -> Tensor:
        def core(*inputs: Tensor) -> Tensor:
            return recomputed(self.core, *inputs) if module == "core_attn" else self.core(*inputs)

        x = x + self.attention(self.first(x), core)
        normed = self.second(x)
        if module in ("mlp", "moe"):
            return x + recomputed(self.feed_forward, normed)
        output: Tensor = x + self.feed_forward(normed)
        return output


@contextmanager
def kept_bytes(layer: nn.Module) -> Iterator[Callable[[], int]]:
    """Count the storages that autograd keeps, the layer's own parameters apart."""
    own = {parameter.untyped_storage()._cdata for parameter in layer.parameters()}
    seen: dict[int, int] = {}
    alive: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            seen[storage._cdata] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield lambda: sum(seen.values())
