"""Mixture-of-experts families with plain attention: Mixtral, Qwen 2 and 3 MoE, gpt-oss.

Defaults are those of ``MixtralConfig``, ``Qwen2MoeConfig``, ``Qwen3MoeConfig`` and
``GptOssConfig`` in Transformers.
"""

from __future__ import annotations

from dataclasses import replace

from solver.workload.architecture import (
    Architecture,
    Attention,
    FeedForward,
    Layer,
    MixtureOfExperts,
)
from solver.workload.families import common
from solver.workload.families.llama import qwen_windows
from solver.workload.fields import Fields


def read_mixtral(fields: Fields) -> Architecture:
    """Mixtral: every layer has experts; ``intermediate_size`` is the width of one expert."""
    layers = common.num_layers(fields)
    window = fields.optional_integer("sliding_window")
    experts, per_token = expert_counts(fields, "num_local_experts", per_token_default=2)
    feed_forward = MixtureOfExperts(
        experts=experts,
        experts_per_token=per_token,
        hidden=fields.integer("intermediate_size"),
        gated=True,
        activation=common.activation(fields, "hidden_act", default="silu"),
    )
    attention = _attention(fields, key_value_default=8)
    return _decoder(
        fields,
        attention,
        [feed_forward] * layers,
        window,
        [window is not None] * layers,
    )


def read_qwen2_moe(fields: Fields) -> Architecture:
    """Qwen 1.5 and 2 MoE: shared experts behind a gate; biases on query, key and value."""
    bias = fields.boolean("qkv_bias", True)
    attention = replace(_attention(fields), query_key_value_bias=bias)
    shared = fields.integer("shared_expert_intermediate_size", default=5632, minimum=0)
    return _qwen(fields, attention, shared)


def read_qwen3_moe(fields: Fields) -> Architecture:
    """Qwen 3 MoE: no shared expert; normalised queries and keys."""
    bias = fields.boolean("attention_bias", False)
    attention = replace(
        _attention(fields),
        query_key_value_bias=bias,
        output_bias=bias,
        query_key_norm=True,
    )
    return _qwen(fields, attention, shared_hidden=0)


def read_gpt_oss(fields: Fields) -> Architecture:
    """gpt-oss: biases everywhere, attention sinks, every other layer within a window."""
    layers = common.num_layers(fields)
    window = fields.integer("sliding_window", default=128)
    experts, per_token = expert_counts(fields, "num_local_experts", per_token_default=4)
    bias = fields.boolean("attention_bias", True)
    attention = replace(
        _attention(fields, key_value_default=8, head_dim_default=64),
        query_key_value_bias=bias,
        output_bias=bias,
        sinks=True,
    )
    feed_forward = MixtureOfExperts(
        experts=experts,
        experts_per_token=per_token,
        hidden=fields.integer("intermediate_size"),
        gated=True,
        activation=common.activation(fields, "hidden_act", default="silu"),
        bias=True,
        router_bias=True,
    )
    sliding = common.sliding_layers(fields, layers, (i % 2 == 0 for i in range(layers)))
    return _decoder(fields, attention, [feed_forward] * layers, window, sliding)


def expert_counts(
    fields: Fields, *names: str, per_token_default: int | None = None
) -> tuple[int, int]:
    """Routed experts, under one of the names, and how many of them a token visits."""
    experts = fields.integer(*names, maximum=65_536)
    if per_token_default is None:
        per_token = fields.integer("num_experts_per_tok")
    else:
        per_token = fields.integer(
            "num_experts_per_tok", "experts_per_token", default=per_token_default
        )
    if per_token > experts:
        raise fields.wrong(
            "num_experts_per_tok",
            f"A token cannot visit {per_token} of {experts} experts.",
            f"Give at most {experts}.",
        )
    return experts, per_token


def expert_groups(
    fields: Fields, experts: int, per_token: int, default: tuple[int, int] = (1, 1)
) -> tuple[int, int]:
    """Groups of experts (``n_group``), and how many of them a token's experts lie in.

    ``default``: what the model's configuration class says; it holds where it divides the experts.
    DeepSeek-V2's ``topk_method`` ``greedy`` ignores groups.
    """
    if experts % default[0]:
        default = (1, 1)
    if fields.text("topk_method", default="") == "greedy":
        return 1, 1
    groups = fields.integer("n_group", default=default[0], maximum=experts)
    chosen = fields.integer("topk_group", default=min(default[1], groups))
    if experts % groups:
        raise fields.wrong(
            "n_group",
            f"{experts} experts do not divide into {groups} groups.",
            "Give a divisor of the number of experts.",
        )
    if chosen > groups:
        raise fields.wrong(
            "topk_group",
            f"A token cannot visit {chosen} of {groups} groups.",
            f"Give at most {groups}.",
        )
    if per_token > chosen * (experts // groups):
        raise fields.wrong(
            "topk_group",
            f"{chosen} groups of {experts // groups} experts hold fewer than {per_token} experts.",
            "Give more groups per token, or fewer experts per token.",
        )
    return groups, chosen


def _qwen(fields: Fields, attention: Attention, shared_hidden: int) -> Architecture:
    layers = common.num_layers(fields)
    activation = common.activation(fields, "hidden_act", default="silu")
    # Transformers 5 saves the field of Qwen 3 under the second name.
    experts, per_token = expert_counts(fields, "num_experts", "num_local_experts")
    sparse = MixtureOfExperts(
        experts=experts,
        experts_per_token=per_token,
        hidden=fields.integer("moe_intermediate_size"),
        gated=True,
        activation=activation,
        shared_hidden=shared_hidden,
        shared_gate=shared_hidden > 0,
    )
    is_sparse = _qwen_sparse_layers(fields, layers)
    # A model without dense layers need not state their width.
    dense = (
        sparse
        if all(is_sparse)
        else FeedForward(fields.integer("intermediate_size"), gated=True, activation=activation)
    )
    window, sliding = qwen_windows(fields)
    feed_forwards = [sparse if flag else dense for flag in is_sparse]
    return _decoder(fields, attention, feed_forwards, window, sliding)


def _qwen_sparse_layers(fields: Fields, layers: int) -> list[bool]:
    """Every ``decoder_sparse_step``-th layer has experts, except those in ``mlp_only_layers``."""
    step = fields.integer("decoder_sparse_step", default=1)
    dense = fields.sequence("mlp_only_layers") or ()
    for index, layer in enumerate(dense):
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < layers:
            raise fields.wrong(
                f"mlp_only_layers[{index}]",
                "Each entry must be the number of a layer, counted from 0.",
                f"The model has layers 0 to {layers - 1}.",
            )
    return [(i + 1) % step == 0 and i not in dense for i in range(layers)]


def _attention(
    fields: Fields,
    key_value_default: int | None = None,
    head_dim_default: int | None = None,
) -> Attention:
    hidden_size = fields.integer("hidden_size")
    heads, key_value_heads = common.head_counts(fields, key_value_default=key_value_default)
    if head_dim_default is not None and "head_dim" not in fields:
        head_dim = head_dim_default
    else:
        head_dim = common.head_dim(fields, hidden_size, heads, "num_attention_heads")
    return Attention(heads=heads, key_value_heads=key_value_heads, head_dim=head_dim)


def _decoder(
    fields: Fields,
    attention: Attention,
    feed_forwards: list[MixtureOfExperts] | list[FeedForward | MixtureOfExperts],
    window: int | None,
    sliding: list[bool],
) -> Architecture:
    dropout = fields.fraction("attention_dropout", 0.0)
    layers = (
        Layer(
            attention=replace(attention, window=window if windowed else None),
            feed_forward=feed_forward,
            attention_dropout=dropout,
        )
        for feed_forward, windowed in zip(feed_forwards, sliding, strict=True)
    )
    return Architecture(
        name=common.name_of(fields),
        hidden_size=fields.integer("hidden_size"),
        vocabulary_size=fields.integer("vocab_size"),
        layers=common.runs(layers),
        tied_embeddings=fields.boolean("tie_word_embeddings", False),
        max_positions=fields.integer("max_position_embeddings", default=0, minimum=0),
    )
