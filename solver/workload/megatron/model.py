"""From Megatron-LM's flags to the architecture they describe.

Defaults are those of megatron/training/arguments.py and core/transformer/transformer_config.py.
"""

from __future__ import annotations

import re

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
from solver.workload.families.common import MOST_LAYERS, runs
from solver.workload.megatron.flags import Flags, wrong
from solver.workload.megatron.patterns import layer_pattern

GPT2_VOCABULARY = 50257
"""Entries of GPT-2's byte-pair vocabulary, which Megatron-LM's own GPT examples use."""

_POSITIONS = {
    "learned_absolute": Positions.LEARNED,
    "rope": Positions.ROTARY,
    "yarn": Positions.ROTARY,
    "mrope": Positions.ROTARY,
    "none": Positions.NONE,
}


def read_model(flags: Flags) -> Architecture:
    """The architecture.

    Raises:
        BadRequest: A size is missing, absurd, or contradicts another flag.
    """
    hidden = flags.required_integer("--hidden-size")
    layers = flags.required_integer("--num-layers")
    if layers > MOST_LAYERS:
        raise wrong("--num-layers", f"--num-layers is {layers}, more than {MOST_LAYERS}.")
    latent = flags.switch("--multi-latent-attention")
    attention = _latent_attention(flags) if latent else _attention(flags, hidden)
    positions = flags.choice("--position-embedding-type", _POSITIONS, Positions.LEARNED)
    if flags.switch("--use-rotary-position-embeddings"):
        positions = Positions.ROTARY
    if flags.switch("--no-position-embedding"):
        positions = Positions.ROTARY if positions is Positions.ROTARY else Positions.NONE
    norm = {"LayerNorm": Norm.LAYER, "RMSNorm": Norm.RMS}
    kind = flags.choice("--normalization", norm, Norm.LAYER)
    hidden_dropout = flags.fraction("--hidden-dropout", 0.1)
    attention_dropout = flags.fraction("--attention-dropout", 0.1)

    def layer(part: FeedForward | MixtureOfExperts) -> Layer:
        return Layer(
            attention,
            part,
            norm=kind,
            hidden_dropout=hidden_dropout,
            attention_dropout=attention_dropout,
        )

    dense = _feed_forward(flags, hidden)
    sparse = _experts(flags, dense)
    is_sparse = _sparse_layers(flags, layers) if sparse is not None else [False] * layers
    return Architecture(
        name="megatron-lm",
        hidden_size=hidden,
        vocabulary_size=_vocabulary(flags),
        layers=runs(
            layer(sparse if sparse is not None and routed else dense) for routed in is_sparse
        ),
        tied_embeddings=not flags.switch("--untie-embeddings-and-output-weights"),
        positions=positions,
        max_positions=_max_positions(flags, positions),
        embedding_dropout=hidden_dropout,
        multi_token_prediction=flags.integer("--mtp-num-layers", 0, minimum=0),
    )


def _vocabulary(flags: Flags) -> int:
    return flags.integer("--vocab-size", GPT2_VOCABULARY)


def _max_positions(flags: Flags, positions: Positions) -> int:
    given = flags.optional_integer("--max-position-embeddings")
    sequence = flags.optional_integer("--seq-length")
    if given is not None and sequence is not None and sequence > given:
        raise wrong(
            "--max-position-embeddings",
            f"--max-position-embeddings {given} is less than --seq-length {sequence}.",
        )
    if given is None and positions is Positions.LEARNED:
        raise wrong(
            "--max-position-embeddings",
            "Learned positions need --max-position-embeddings.",
            "Give it, or --position-embedding-type rope.",
        )
    return given or 0


def _attention(flags: Flags, hidden: int) -> Attention:
    heads = flags.required_integer("--num-attention-heads")
    grouped = flags.switch("--group-query-attention")
    groups = flags.integer("--num-query-groups", 1) if grouped else heads
    if not grouped and flags.optional_integer("--num-query-groups") not in (None, 1, heads):
        raise wrong(
            "--num-query-groups",
            "--num-query-groups has no effect without --group-query-attention.",
            "Add --group-query-attention.",
        )
    if heads % groups:
        raise wrong(
            "--num-query-groups", f"{heads} attention heads cannot share {groups} groups evenly."
        )
    channels = flags.optional_integer("--kv-channels")
    if channels is None and hidden % heads:
        raise wrong(
            "--num-attention-heads",
            f"The hidden size {hidden} is not a multiple of {heads} attention heads.",
            "Give --kv-channels if a head has another width.",
        )
    bias = not flags.switch("--disable-bias-linear")
    return Attention(
        heads=heads,
        key_value_heads=groups,
        head_dim=channels or hidden // heads,
        query_key_value_bias=bias or flags.switch("--add-qkv-bias"),
        output_bias=bias,
        query_key_norm=flags.switch("--qk-layernorm"),
        window=_window(flags),
    )


def _window(flags: Flags) -> int | None:
    """``--window-size (left,right)``: tokens seen to the left; the own one comes on top."""
    words = flags.words("--window-size")
    if words is None:
        return None
    text = " ".join(words)
    sides = re.fullmatch(r"\(?\s*(-?\d{1,9})[\s,]+(-?\d{1,9})\s*\)?", text)
    if sides is None:
        raise wrong("--window-size", "--window-size must be two numbers such as (128,0).")
    left = int(sides[1])
    return None if left < 0 else left + 1


def _latent_attention(flags: Flags) -> LatentAttention:
    if flags.switch("--group-query-attention"):
        raise wrong(
            "--group-query-attention",
            "Latent attention has no query groups.",
            "Leave out --group-query-attention or --multi-latent-attention.",
        )
    flags.optional_integer("--kv-channels")
    flags.switch("--disable-bias-linear")
    return LatentAttention(
        heads=flags.required_integer("--num-attention-heads"),
        query_rank=flags.optional_integer("--q-lora-rank"),
        key_value_rank=flags.integer("--kv-lora-rank", 32),
        nope_head_dim=flags.integer("--qk-head-dim", 128),
        rope_head_dim=flags.integer("--qk-pos-emb-head-dim", 64),
        value_head_dim=flags.integer("--v-head-dim", 128),
        query_key_norm=flags.switch("--qk-layernorm"),
    )


def _feed_forward(flags: Flags, hidden: int) -> FeedForward:
    """The dense MLP; unset, its width is 4 h, or for SwiGLU two thirds of that in steps of 64."""
    gates = {"--swiglu": "silu", "--geglu": "gelu", "--quick-geglu": "gelu"}
    chosen = [flag for flag in gates if flags.switch(flag)]
    if len(chosen) > 1:
        raise wrong(chosen[1], f"{chosen[0]} and {chosen[1]} exclude one another.")
    squared = flags.switch("--squared-relu")
    if chosen and squared:
        raise wrong("--squared-relu", f"{chosen[0]} and --squared-relu exclude one another.")
    default = 4 * hidden
    if "--swiglu" in chosen:
        default = max(64, int(4 * hidden * 2 / 3 / 64) * 64)
    activation = gates[chosen[0]] if chosen else "relu2" if squared else "gelu"
    return FeedForward(
        hidden=flags.integer("--ffn-hidden-size", default),
        gated=bool(chosen),
        activation=activation,
        bias=not flags.switch("--disable-bias-linear"),
    )


def _experts(flags: Flags, dense: FeedForward) -> MixtureOfExperts | None:
    experts = flags.optional_integer("--num-experts")
    if experts is None:
        for flag in ("--expert-model-parallel-size", "--moe-shared-expert-intermediate-size"):
            if (flags.optional_integer(flag, minimum=0) or 1) > 1:
                raise wrong(flag, f"{flag} needs experts.", "Add --num-experts.")
        for flag in (
            "--moe-ffn-hidden-size",
            "--moe-router-topk",
            "--moe-layer-freq",
            "--moe-router-num-groups",
            "--moe-router-group-topk",
        ):
            flags.words(flag)
        return None
    per_token = flags.integer("--moe-router-topk", 2)
    if per_token > experts:
        raise wrong("--moe-router-topk", f"A token cannot visit {per_token} of {experts} experts.")
    groups, groups_per_token = _groups(flags, experts, per_token)
    return MixtureOfExperts(
        experts=experts,
        experts_per_token=per_token,
        hidden=flags.integer("--moe-ffn-hidden-size", dense.hidden),
        gated=dense.gated,
        activation=dense.activation,
        shared_hidden=flags.integer("--moe-shared-expert-intermediate-size", 0, minimum=0),
        bias=dense.bias,
        shared_gate=flags.switch("--moe-shared-expert-gate"),
        groups=groups,
        groups_per_token=groups_per_token,
    )


def _groups(flags: Flags, experts: int, per_token: int) -> tuple[int, int]:
    """Groups of experts, and how many a token visits (core/transformer/moe/moe_utils.py)."""
    groups = flags.integer("--moe-router-num-groups", 1)
    chosen = flags.integer("--moe-router-group-topk", groups)
    if experts % groups:
        raise wrong(
            "--moe-router-num-groups", f"{experts} experts do not divide into {groups} groups."
        )
    if chosen > groups:
        raise wrong("--moe-router-group-topk", f"A token cannot visit {chosen} of {groups} groups.")
    if per_token > chosen * (experts // groups):
        raise wrong(
            "--moe-router-group-topk",
            f"{chosen} groups hold fewer than {per_token} experts.",
        )
    return groups, chosen


def _sparse_layers(flags: Flags, layers: int) -> list[bool]:
    words = flags.words("--moe-layer-freq")
    if words is None:
        return [True] * layers
    text = words[0] if len(words) == 1 else f"[{','.join(words)}]"
    return layer_pattern("--moe-layer-freq", text, layers)
