"""The attention half of a layer in PyTorch: grouped-query and latent attention, fused kernels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler.laid import Laid, normalisation
from solver.workload.architecture import Attention, LatentAttention, Layer, Norm, Positions

ROTARY_BASE = 10_000.0
"""Su et al. 2021 (arXiv:2104.09864); no time depends on it."""


def attention_branch(laid: Laid, layer: Layer, positions: Positions, normed: str) -> str:
    """From the normed input to the output of attention."""
    attention = layer.attention
    if isinstance(attention, LatentAttention):
        output = _latent(laid, attention, layer, normed)
    else:
        output = _grouped(laid, attention, layer, positions, normed)
    if layer.norms > 2:
        return laid.norm("attention_post_norm", output, layer.norm)
    return output


def _grouped(
    laid: Laid, attention: Attention, layer: Layer, positions: Positions, normed: str
) -> str:
    setting, dim = laid.setting, attention.head_dim
    queries = setting.share(attention.heads)
    keys = setting.share(attention.key_value_heads)
    hidden, bias = setting.hidden, attention.query_key_value_bias
    joined = laid.linear("query_key", normed, hidden, (queries + keys) * dim, bias)
    value = laid.linear("value", normed, hidden, keys * dim, bias)

    def split(both: Tensor) -> tuple[Tensor, Tensor]:
        query, key = both.unflatten(-1, (queries + keys, dim)).split((queries, keys), dim=-2)
        return query, key

    if attention.query_key_norm:
        norms = normalisation(layer.norm, dim), normalisation(layer.norm, dim)

        def normed_heads(both: Tensor) -> Tensor:
            query, key = split(both)
            return torch.cat((norms[0](query), norms[1](key)), dim=-2).flatten(-2)

        joined = laid.op("query_key_norm", (joined,), normed_heads, *norms)
    if positions is Positions.ROTARY:
        turn = _turning(laid, dim)
        joined = laid.op(
            "rotary", (joined,), lambda both: turn(both.unflatten(-1, (-1, dim))).flatten(-2)
        )
    mask = _mask(laid, attention, queries, positions)

    def core(both: Tensor, values: Tensor) -> Tensor:
        query, key = (part.transpose(1, 2) for part in split(both))
        mixed = functional.scaled_dot_product_attention(
            query,
            key,
            values.unflatten(-1, (keys, dim)).transpose(1, 2),
            attn_mask=mask,
            dropout_p=layer.attention_dropout,
            is_causal=mask is None,
            enable_gqa=queries != keys,
        )
        return mixed.transpose(1, 2).flatten(-2)

    context = laid.op("core_attention", (joined, value), core)
    return laid.linear(
        "attention_projection", context, queries * dim, hidden, attention.output_bias
    )


def _latent(laid: Laid, attention: LatentAttention, layer: Layer, normed: str) -> str:
    """DeepSeek-V2, arXiv:2405.04434, section 2.1; down projections stand on every rank whole."""
    setting, hidden = laid.setting, laid.setting.hidden
    heads = setting.share(attention.heads)
    nope, rope = attention.nope_head_dim, attention.rope_head_dim
    rank, value_dim = attention.key_value_rank, attention.value_head_dim
    source, inner = normed, hidden
    if attention.query_rank is not None:
        inner = attention.query_rank
        source = laid.linear("query_down", normed, hidden, inner)
        source = laid.norm("query_latent_norm", source, Norm.RMS, inner)
    query = laid.linear("query_up", source, inner, heads * (nope + rope))
    latent = laid.linear("key_value_down", normed, hidden, rank + rope)
    norm = normalisation(Norm.RMS, rank)

    def normed_latent(whole: Tensor) -> Tensor:
        compressed, position = whole.split((rank, rope), dim=-1)
        return torch.cat((norm(compressed), position), dim=-1)

    latent = laid.op("key_value_latent_norm", (latent,), normed_latent, norm)
    ups = nn.Linear(rank, heads * nope, bias=False), nn.Linear(rank, heads * value_dim, bias=False)
    key = laid.op("key_up", (latent,), lambda whole: ups[0](whole[..., :rank]), ups[0])
    value = laid.op("value_up", (latent,), lambda whole: ups[1](whole[..., :rank]), ups[1])
    turn = _turning(laid, rope)

    def positioned(queries: Tensor, keys: Tensor, whole: Tensor) -> Tensor:
        plain, turned = queries.unflatten(-1, (heads, nope + rope)).split((nope, rope), dim=-1)
        position = turn(whole[..., None, rank:]).expand(-1, -1, heads, -1)
        whole_query = torch.cat((plain, turn(turned)), dim=-1)
        whole_key = torch.cat((keys.unflatten(-1, (heads, nope)), position), dim=-1)
        return torch.cat((whole_query, whole_key), dim=-2).flatten(-2)

    joined = laid.op("rotary", (query, key, latent), positioned)

    def core(both: Tensor, values: Tensor) -> Tensor:
        query, key = (
            part.transpose(1, 2)
            for part in both.unflatten(-1, (2 * heads, nope + rope)).chunk(2, dim=-2)
        )
        mixed = functional.scaled_dot_product_attention(
            query,
            key,
            values.unflatten(-1, (heads, value_dim)).transpose(1, 2),
            dropout_p=layer.attention_dropout,
            is_causal=True,
        )
        return mixed.transpose(1, 2).flatten(-2)

    context = laid.op("core_attention", (joined, value), core)
    return laid.linear("attention_projection", context, heads * value_dim, hidden)


class _Turning:
    """Rotates halves of heads (batch, sequence, heads, width) by their position."""

    def __init__(self, cosine: Tensor, sine: Tensor) -> None:
        self._cosine, self._sine = cosine, sine

    def __call__(self, heads: Tensor) -> Tensor:
        first, second = heads.chunk(2, dim=-1)
        return heads * self._cosine + torch.cat((-second, first), dim=-1) * self._sine


def _turning(laid: Laid, width: int) -> _Turning:
    half = torch.arange(width // 2, dtype=torch.float32)
    positions = torch.arange(laid.setting.sequence, dtype=torch.float32)
    angles = torch.outer(positions, ROTARY_BASE ** (-2 * half / width)).repeat(1, 2)[:, None]
    return _Turning(
        laid.constant(angles.cos().to(laid.setting.dtype)),
        laid.constant(angles.sin().to(laid.setting.dtype)),
    )


def _mask(laid: Laid, attention: Attention, heads: int, positions: Positions) -> Tensor | None:
    """What plain causal attention does not say: a sliding window, or biases that grow with distance
    (ALiBi, arXiv:2108.12409).
    """
    length, window = laid.setting.sequence, attention.window
    windowed = window is not None and window < length
    if not windowed and positions is not Positions.ALIBI:
        return None
    far = torch.arange(length)[:, None] - torch.arange(length)[None]
    seen = (far >= 0) & (far < window if windowed else True)
    bias = torch.zeros(length, length).masked_fill(~seen, float("-inf"))
    if positions is Positions.ALIBI:
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        bias = bias - slopes[:, None, None] * far
    return laid.constant(bias.to(laid.setting.dtype))
