"""A decoder model's architecture: the numbers that decide its costs, and nothing else.

Readers (``huggingface``, ``megatron``, the catalogue) make an :class:`Architecture`; the cost model
consumes it. Sizes are whole-model sizes, before any parallelism; no padding is applied here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Norm(StrEnum):
    """The normalisation a layer uses."""

    RMS = "rmsnorm"
    LAYER = "layernorm"


class Positions(StrEnum):
    """How positions enter the model."""

    ROTARY = "rotary"
    LEARNED = "learned"
    ALIBI = "alibi"
    NONE = "none"


@dataclass(frozen=True)
class Attention:
    """Multi-head, grouped-query or multi-query attention.

    ``head_dim * heads`` may differ from the hidden size (Qwen 3, Gemma). ``window`` is the sliding
    window in tokens, or None for full causal attention. ``sinks``: one learned logit per head that
    joins the softmax (gpt-oss).
    """

    heads: int
    key_value_heads: int
    head_dim: int
    query_key_value_bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False
    window: int | None = None
    sinks: bool = False


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2/V3). ``query_rank`` None: queries not compressed."""

    heads: int
    query_rank: int | None
    key_value_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int
    query_key_norm: bool = True


@dataclass(frozen=True)
class FeedForward:
    """A dense MLP: two matrices, or three when ``gated`` (SwiGLU, GeGLU)."""

    hidden: int
    gated: bool
    activation: str = "silu"
    bias: bool = False


@dataclass(frozen=True)
class MixtureOfExperts:
    """Routed experts, each a feed-forward of ``hidden``, plus an optional shared expert.

    ``shared_hidden`` is the total width of the shared experts (0: none); ``shared_gate``: their sum
    is scaled by a gate of one output (Qwen 2). ``router_bias``: one learned number per expert
    (gpt-oss; DeepSeek-V3's score correction). ``groups``: consecutive experts form this many, and a
    token's experts lie in at most ``groups_per_token`` of them (DeepSeek-V3's limited routing).
    """

    experts: int
    experts_per_token: int
    hidden: int
    gated: bool
    activation: str = "silu"
    shared_hidden: int = 0
    bias: bool = False
    shared_gate: bool = False
    router_bias: bool = False
    groups: int = 1
    groups_per_token: int = 1


@dataclass(frozen=True)
class Layer:
    """One transformer layer.

    ``norms`` counts the norms on the residual path: 2 usually, 4 for Gemma 2/3 (a further norm
    after each half). ``parallel_residual``: attention and MLP read the same input (GPT-NeoX).
    """

    attention: Attention | LatentAttention
    feed_forward: FeedForward | MixtureOfExperts
    norm: Norm = Norm.RMS
    norms: int = 2
    parallel_residual: bool = False
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0


@dataclass(frozen=True)
class Architecture:
    """A decoder-only model: an embedding, runs of equal layers in order, and a head.

    ``layers`` holds ``(layer, count)`` runs in model order. ``tied_embeddings``: the head uses the
    embedding's table, which then stands on both the first and the last stage.
    ``multi_token_prediction`` counts MTP modules (DeepSeek-V3).
    """

    name: str
    hidden_size: int
    vocabulary_size: int
    layers: tuple[tuple[Layer, int], ...]
    tied_embeddings: bool
    positions: Positions = Positions.ROTARY
    max_positions: int = 0
    embedding_norm: bool = False
    embedding_dropout: float = 0.0
    head_bias: bool = False
    multi_token_prediction: int = 0

    @property
    def num_layers(self) -> int:
        """Number of transformer layers, MTP modules apart."""
        return sum(count for _, count in self.layers)
