"""Gemma 1, 2 and 3: GeGLU, explicit ``head_dim``, tied embeddings, RMSNorm.

Defaults are those of ``GemmaConfig``, ``Gemma2Config`` and ``Gemma3TextConfig`` in Transformers.
Published Gemma 3 files leave out what equals the class's default, head counts included.
"""

from __future__ import annotations

from solver.workload.architecture import Architecture, Attention, FeedForward, Layer
from solver.workload.families import common
from solver.workload.fields import Fields


def read_gemma(fields: Fields) -> Architecture:
    """Gemma 1: full attention, two norms a layer."""
    layers = common.num_layers(fields)
    return _decoder(fields, norms=2, window=None, sliding=[False] * layers)


def read_gemma2(fields: Fields) -> Architecture:
    """Gemma 2: every other layer attends within a window; a norm after each half as well."""
    layers = common.num_layers(fields)
    window = fields.integer("sliding_window", default=4096)
    sliding = common.sliding_layers(fields, layers, (i % 2 == 0 for i in range(layers)))
    return _decoder(fields, norms=4, window=window, sliding=sliding)


def read_gemma3(fields: Fields) -> Architecture:
    """Gemma 3: five windowed layers to one full, and normalised queries and keys."""
    layers = common.num_layers(fields)
    window = fields.integer("sliding_window", default=4096)
    period = fields.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
    sliding = common.sliding_layers(fields, layers, ((i + 1) % period != 0 for i in range(layers)))
    return _decoder(
        fields,
        norms=4,
        window=window,
        sliding=sliding,
        query_key_norm=True,
        heads_default=8,
        key_value_default=4,
        vocabulary_default=262_208,
    )


def _decoder(
    fields: Fields,
    *,
    norms: int,
    window: int | None,
    sliding: list[bool],
    query_key_norm: bool = False,
    heads_default: int | None = None,
    key_value_default: int | None = None,
    vocabulary_default: int | None = None,
) -> Architecture:
    hidden_size = fields.integer("hidden_size")
    heads, key_value_heads = common.head_counts(
        fields, default=heads_default, key_value_default=key_value_default
    )
    head_dim = fields.integer("head_dim", default=256)
    bias = fields.boolean("attention_bias", False)
    feed_forward = FeedForward(
        hidden=fields.integer("intermediate_size"),
        gated=True,
        activation=common.activation(fields, "hidden_activation", "hidden_act", default="gelu"),
    )
    attention_dropout = fields.fraction("attention_dropout", 0.0)

    def layer(windowed: bool) -> Layer:
        return Layer(
            attention=Attention(
                heads=heads,
                key_value_heads=key_value_heads,
                head_dim=head_dim,
                query_key_value_bias=bias,
                output_bias=bias,
                query_key_norm=query_key_norm,
                window=window if windowed else None,
            ),
            feed_forward=feed_forward,
            norms=norms,
            attention_dropout=attention_dropout,
        )

    return Architecture(
        name=common.name_of(fields),
        hidden_size=hidden_size,
        vocabulary_size=(
            fields.integer("vocab_size")
            if vocabulary_default is None
            else fields.integer("vocab_size", default=vocabulary_default)
        ),
        layers=common.runs(map(layer, sliding)),
        tied_embeddings=fields.boolean("tie_word_embeddings", True),
        max_positions=fields.integer("max_position_embeddings", default=0, minimum=0),
    )
