"""Llama and the families that share its layer: RMSNorm, rotary positions, SwiGLU.

Defaults are those of ``LlamaConfig``, ``MistralConfig``, ``Qwen2Config``, ``Qwen3Config`` and
``Phi3Config`` in Transformers.
"""

from __future__ import annotations

from solver.workload.architecture import Architecture, Attention, FeedForward, Layer
from solver.workload.families import common
from solver.workload.fields import Fields


def read_llama(fields: Fields) -> Architecture:
    """Llama 1, 2, 3: no window; biases only where ``attention_bias`` or ``mlp_bias`` say so."""
    bias = fields.boolean("attention_bias", False)
    return _decoder(
        fields,
        query_key_value_bias=bias,
        output_bias=bias,
        feed_forward_bias=fields.boolean("mlp_bias", False),
    )


def read_mistral(fields: Fields) -> Architecture:
    """Mistral: 8 key/value heads by default; a window in every layer unless it is null."""
    layers = common.num_layers(fields)
    window = fields.optional_integer("sliding_window")
    return _decoder(
        fields,
        key_value_default=8,
        window=window,
        sliding=common.sliding_layers(fields, layers, [window is not None] * layers),
    )


def read_qwen2(fields: Fields) -> Architecture:
    """Qwen 1.5, 2, 2.5: biases on query, key and value only."""
    window, sliding = qwen_windows(fields)
    return _decoder(fields, query_key_value_bias=True, window=window, sliding=sliding)


def read_qwen3(fields: Fields) -> Architecture:
    """Qwen 3: normalised queries and keys, explicit ``head_dim`` (128 by default)."""
    window, sliding = qwen_windows(fields)
    bias = fields.boolean("attention_bias", False)
    return _decoder(
        fields,
        query_key_value_bias=bias,
        output_bias=bias,
        query_key_norm=True,
        head_dim_default=128,
        window=window,
        sliding=sliding,
    )


def read_phi3(fields: Fields) -> Architecture:
    """Phi 3 and 4: Llama's layer with an optional window; some dropout is configurable."""
    layers = common.num_layers(fields)
    window = fields.optional_integer("sliding_window")
    return _decoder(
        fields,
        window=window,
        sliding=[window is not None] * layers,
        hidden_dropout=fields.fraction("resid_pdrop", 0.0),
        embedding_dropout=fields.fraction("embd_pdrop", 0.0),
    )


def qwen_windows(fields: Fields) -> tuple[int | None, list[bool]]:
    """Qwen's rule: windows only if ``use_sliding_window``, from layer ``max_window_layers`` on."""
    layers = common.num_layers(fields)
    if not fields.boolean("use_sliding_window", False):
        return None, [False] * layers
    window = fields.integer("sliding_window", default=4096)
    first = fields.integer("max_window_layers", default=28, minimum=0)
    return window, common.sliding_layers(fields, layers, (i >= first for i in range(layers)))


def _decoder(
    fields: Fields,
    *,
    query_key_value_bias: bool = False,
    output_bias: bool = False,
    query_key_norm: bool = False,
    feed_forward_bias: bool = False,
    key_value_default: int | None = None,
    head_dim_default: int | None = None,
    window: int | None = None,
    sliding: list[bool] | None = None,
    hidden_dropout: float = 0.0,
    embedding_dropout: float = 0.0,
) -> Architecture:
    hidden_size = fields.integer("hidden_size")
    layers = common.num_layers(fields)
    heads, key_value_heads = common.head_counts(fields, key_value_default=key_value_default)
    if head_dim_default is not None and "head_dim" not in fields:
        head_dim = head_dim_default
    else:
        head_dim = common.head_dim(fields, hidden_size, heads, "num_attention_heads")
    feed_forward = FeedForward(
        hidden=fields.integer("intermediate_size"),
        gated=True,
        activation=common.activation(fields, "hidden_act", default="silu"),
        bias=feed_forward_bias,
    )
    attention_dropout = fields.fraction("attention_dropout", 0.0)

    def layer(windowed: bool) -> Layer:
        return Layer(
            attention=Attention(
                heads=heads,
                key_value_heads=key_value_heads,
                head_dim=head_dim,
                query_key_value_bias=query_key_value_bias,
                output_bias=output_bias,
                query_key_norm=query_key_norm,
                window=window if windowed else None,
            ),
            feed_forward=feed_forward,
            hidden_dropout=hidden_dropout,
            attention_dropout=attention_dropout,
        )

    return Architecture(
        name=common.name_of(fields),
        hidden_size=hidden_size,
        vocabulary_size=fields.integer("vocab_size"),
        layers=common.runs(layer(windowed) for windowed in sliding or [False] * layers),
        tied_embeddings=fields.boolean("tie_word_embeddings", False),
        max_positions=fields.integer("max_position_embeddings", default=0, minimum=0),
        embedding_dropout=embedding_dropout,
    )
