"""How many parameters an architecture has, exactly.

Counted matrix by matrix as the Transformers library builds them; a table that is tied counts once.
Vocabularies are not padded here.
"""

from __future__ import annotations

from solver.workload.architecture import (
    Architecture,
    Attention,
    FeedForward,
    LatentAttention,
    Layer,
    MixtureOfExperts,
    Norm,
    Positions,
)


def parameters(architecture: Architecture) -> int:
    """Parameters of the model, its multi-token-prediction modules apart."""
    return (
        embedding_parameters(architecture)
        + sum(layer_parameters(layer, architecture) * n for layer, n in architecture.layers)
        + head_parameters(architecture)
    )


def active_parameters(architecture: Architecture) -> int:
    """Parameters that one token passes: of routed experts only those that it visits."""
    idle = sum(
        (moe.experts - moe.experts_per_token)
        * _expert_parameters(moe, architecture.hidden_size)
        * n
        for moe, n in ((layer.feed_forward, n) for layer, n in architecture.layers)
        if isinstance(moe, MixtureOfExperts)
    )
    return parameters(architecture) - idle


def embedding_parameters(architecture: Architecture) -> int:
    """The token table, learned positions and the norm behind them."""
    hidden = architecture.hidden_size
    learned = architecture.positions is Positions.LEARNED
    norm = _norm(architecture.layers[0][0].norm, hidden) if architecture.embedding_norm else 0
    positions = architecture.max_positions * hidden if learned else 0
    return architecture.vocabulary_size * hidden + positions + norm


def head_parameters(architecture: Architecture) -> int:
    """The last norm and the head, without a table that it shares with the embedding."""
    hidden = architecture.hidden_size
    table = 0 if architecture.tied_embeddings else architecture.vocabulary_size * hidden
    bias = architecture.vocabulary_size if architecture.head_bias else 0
    return _norm(architecture.layers[-1][0].norm, hidden) + table + bias


def layer_parameters(layer: Layer, architecture: Architecture) -> int:
    """One transformer layer."""
    hidden = architecture.hidden_size
    return (
        attention_parameters(layer.attention, hidden)
        + feed_forward_parameters(layer.feed_forward, hidden)
        + layer.norms * _norm(layer.norm, hidden)
    )


def multi_token_prediction_parameters(architecture: Architecture) -> int:
    """The MTP modules beside the model: each two norms, a projection, one layer and a last norm.

    Embedding and head are the model's own (DeepSeek-V3 report, arXiv:2412.19437, section 2.2).
    """
    hidden = architecture.hidden_size
    layer = architecture.layers[-1][0]
    module = (
        layer_parameters(layer, architecture) + 2 * hidden * hidden + 3 * _norm(layer.norm, hidden)
    )
    return architecture.multi_token_prediction * module


def attention_parameters(attention: Attention | LatentAttention, hidden: int) -> int:
    """The projections of attention, with biases, norms and sinks where it has them."""
    if isinstance(attention, LatentAttention):
        return _latent_attention(attention, hidden)
    queries = attention.heads * attention.head_dim
    keys_and_values = 2 * attention.key_value_heads * attention.head_dim
    total = hidden * (queries + keys_and_values) + queries * hidden
    if attention.query_key_value_bias:
        total += queries + keys_and_values
    if attention.output_bias:
        total += hidden
    if attention.query_key_norm:
        total += 2 * attention.head_dim
    if attention.sinks:
        total += attention.heads
    return total


def feed_forward_parameters(feed_forward: FeedForward | MixtureOfExperts, hidden: int) -> int:
    """A dense MLP, or the router and all experts."""
    if isinstance(feed_forward, FeedForward):
        return _mlp(hidden, feed_forward.hidden, feed_forward.gated, feed_forward.bias)
    moe = feed_forward
    total = hidden * moe.experts + moe.experts * _expert_parameters(moe, hidden)
    if moe.router_bias:
        total += moe.experts
    if moe.shared_hidden:
        total += _mlp(hidden, moe.shared_hidden, moe.gated, moe.bias)
    if moe.shared_gate:
        total += hidden
    return total


def _expert_parameters(moe: MixtureOfExperts, hidden: int) -> int:
    return _mlp(hidden, moe.hidden, moe.gated, moe.bias)


def _latent_attention(attention: LatentAttention, hidden: int) -> int:
    """DeepSeek-V2 report, arXiv:2405.04434, section 2.1: compressed queries, keys and values."""
    heads = attention.heads
    query_dim = heads * (attention.nope_head_dim + attention.rope_head_dim)
    rank = attention.query_rank
    queries = hidden * query_dim if rank is None else hidden * rank + rank * query_dim
    down = hidden * (attention.key_value_rank + attention.rope_head_dim)
    up = attention.key_value_rank * heads * (attention.nope_head_dim + attention.value_head_dim)
    out = heads * attention.value_head_dim * hidden
    norms = (rank or 0) + attention.key_value_rank if attention.query_key_norm else 0
    return queries + down + up + out + norms


def _mlp(hidden: int, inner: int, gated: bool, bias: bool) -> int:
    matrices = 3 if gated else 2
    biases = (matrices - 1) * inner + hidden if bias else 0
    return matrices * hidden * inner + biases


def _norm(norm: Norm, width: int) -> int:
    return 2 * width if norm is Norm.LAYER else width
