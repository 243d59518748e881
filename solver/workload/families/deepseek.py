"""DeepSeek-V2 and V3, and Kimi K2: multi-head latent attention and fine-grained experts.

Defaults are those of ``DeepseekV2Config`` and ``DeepseekV3Config`` in Transformers.
``num_key_value_heads`` stands in these configurations without meaning: latent attention keeps one
compressed vector for all heads.
"""

from __future__ import annotations

from solver.workload.architecture import (
    Architecture,
    FeedForward,
    LatentAttention,
    Layer,
    MixtureOfExperts,
)
from solver.workload.families import common
from solver.workload.families.experts import expert_counts, expert_groups
from solver.workload.fields import Fields


def read_deepseek_v2(fields: Fields) -> Architecture:
    """DeepSeek-V2, V2-Lite (``q_lora_rank`` null: queries not compressed)."""
    return _decoder(fields, dense_default=0, router_bias=False, groups=(1, 1))


def read_deepseek_v3(fields: Fields) -> Architecture:
    """DeepSeek-V3, R1: the router has a correction per expert; further MTP modules if stated."""
    return _decoder(fields, dense_default=3, router_bias=True, groups=(8, 4))


def _decoder(
    fields: Fields, *, dense_default: int, router_bias: bool, groups: tuple[int, int]
) -> Architecture:
    layers = common.num_layers(fields)
    attention = LatentAttention(
        heads=fields.integer("num_attention_heads"),
        query_rank=fields.optional_integer("q_lora_rank"),
        key_value_rank=fields.integer("kv_lora_rank", default=512),
        nope_head_dim=fields.integer("qk_nope_head_dim", default=128),
        rope_head_dim=fields.integer("qk_rope_head_dim", default=64),
        value_head_dim=fields.integer("v_head_dim", default=128),
    )
    activation = common.activation(fields, "hidden_act", default="silu")
    sparse = _experts(fields, activation, router_bias, groups)
    is_sparse = _sparse_layers(fields, layers, dense_default)
    dense = (
        sparse
        if all(is_sparse)
        else FeedForward(fields.integer("intermediate_size"), gated=True, activation=activation)
    )
    dropout = fields.fraction("attention_dropout", 0.0)
    return Architecture(
        name=common.name_of(fields),
        hidden_size=fields.integer("hidden_size"),
        vocabulary_size=fields.integer("vocab_size"),
        layers=common.runs(
            Layer(attention, sparse if flag else dense, attention_dropout=dropout)
            for flag in is_sparse
        ),
        tied_embeddings=fields.boolean("tie_word_embeddings", False),
        max_positions=fields.integer("max_position_embeddings", default=0, minimum=0),
        multi_token_prediction=fields.integer(
            "num_nextn_predict_layers", default=0, minimum=0, maximum=16
        ),
    )


def _experts(
    fields: Fields, activation: str, router_bias: bool, default: tuple[int, int]
) -> MixtureOfExperts:
    experts, per_token = expert_counts(fields, "n_routed_experts")
    groups, groups_per_token = expert_groups(fields, experts, per_token, default)
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("n_shared_experts", default=0, minimum=0, maximum=1024)
    return MixtureOfExperts(
        experts=experts,
        experts_per_token=per_token,
        hidden=width,
        gated=True,
        activation=activation,
        shared_hidden=shared * width,
        router_bias=router_bias,
        groups=groups,
        groups_per_token=groups_per_token,
    )


def _sparse_layers(fields: Fields, layers: int, dense_default: int) -> list[bool]:
    """Dense are the first ``first_k_dense_replace``; then every ``moe_layer_freq``-th is sparse."""
    dense = fields.integer("first_k_dense_replace", default=dense_default, minimum=0)
    period = fields.integer("moe_layer_freq", default=1)
    return [i >= dense and i % period == 0 for i in range(layers)]
