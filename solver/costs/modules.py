"""Megatron-LM's selective recompute: what each module does not keep, and what it runs again."""

from __future__ import annotations

from collections.abc import Iterable

from solver.costs.pipeline import Module, Op

_MODULES = (
    ("core_attn", ("attention_softmax", "attention_softmax_mask", "attention_dropout")),
    ("mlp", ("feed_forward_in", "feed_forward_gate", "feed_forward_activation")),
    ("layernorm", ("attention_norm", "feed_forward_norm")),
    (
        "moe",
        (
            "router",
            "expert_permute",
            "expert_dispatch",
            "expert_in",
            "expert_gate",
            "expert_activation",
            "expert_weighting",
            "router_input",
            "shared_expert_in",
            "shared_expert_gate",
            "shared_expert_activation",
        ),
    ),
    ("moe_act", ("expert_gate", "expert_activation", "expert_weighting")),
    ("mla_up_proj", ("query_up", "key_up", "value_up", "rotary")),
    (
        "shared_experts",
        ("shared_expert_in", "shared_expert_gate", "shared_expert_activation"),
    ),
)
"""Megatron-LM's ``--recompute-modules`` and the tensors each leaves out
(core/transformer/transformer_config.py)."""


_OF_ALL_ATTENTION = frozenset({"rotary"})
"""Tensors of a module that layers without it have as well."""


def selective_modules(ops: Iterable[Op]) -> tuple[Module, ...]:
    """The modules that this block has.

    Core attention is a checkpoint round all of it (core/transformer/attention.py): its output is
    made again, although the projection behind it, which reads it, has kept the first one. So with
    fused attention, which has no scores to drop, it costs time and saves next to nothing.
    """
    present = {op.name for op in ops}
    found = []
    for module, tensors in _MODULES:
        dropped = tuple(name for name in tensors if name in present)
        whole = module == "core_attn" and "core_attention" in present
        if whole and "context_return" in present:  # the exchange is inside the checkpoint
            dropped += ("context_exchange",)
        if whole or not _OF_ALL_ATTENTION.issuperset(dropped):
            found.append(Module(module, dropped, ("core_attention",) if whole else ()))
    return tuple(found)
