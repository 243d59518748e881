"""When a parallel layout is legal: one small rule for each reason that frameworks refuse one.

The rules are Megatron-LM's (megatron/training/arguments.py, transformer_config.py), and for the
ZeRO stages DeepSpeed's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from solver.layouts import rules_of_experts, rules_of_layers, rules_of_pipelines, rules_of_ranks
from solver.layouts.layout import Layout
from solver.layouts.rule import Rule
from solver.layouts.setting import Setting


@dataclass(frozen=True)
class Violation:
    """A broken rule, by name and place in ``RULES``: the field to change, and what is wrong."""

    rule: str
    rank: int
    field: str
    detail: str


RULES: tuple[Rule, ...] = (
    rules_of_ranks.DEVICES,
    rules_of_layers.HEADS,
    rules_of_layers.KEY_VALUE_HEADS,
    rules_of_layers.FEED_FORWARD,
    rules_of_layers.CONTEXT,
    rules_of_layers.CONTEXT_METHOD,
    rules_of_layers.SEQUENCE_NEEDS_TENSOR,
    rules_of_layers.SEQUENCE,
    rules_of_pipelines.STAGES,
    rules_of_pipelines.INTERLEAVING,
    rules_of_pipelines.INTERLEAVING_SCHEDULE,
    rules_of_pipelines.EVEN_PIPELINE,
    rules_of_ranks.ZERO,
    rules_of_experts.EXPERTS,
    rules_of_experts.EXCHANGE_OVERLAP,
    rules_of_pipelines.BATCH,
    rules_of_pipelines.MICRO_BATCH,
    rules_of_pipelines.PIPELINE_WORK,
    rules_of_experts.EXPERTS_FOLD,
    rules_of_pipelines.INTERLEAVING_ROUNDS,
    rules_of_pipelines.EVEN_BATCHES,
    rules_of_experts.EXPERT_SHARDS,
    rules_of_ranks.SHARDING_GROUP,
    rules_of_ranks.RANK_ORDER,
)
"""All rules, in the order in which they are reported."""


def violations(
    layout: Layout, setting: Setting, known: frozenset[str], newly: frozenset[str] | None = None
) -> Iterator[Violation]:
    """The rules that the known fields of ``layout`` break, in order.

    Fields that are not known hold 1. With ``newly``, only rules that need one of those fields.
    """
    for rank, rule in enumerate(RULES):
        if rule.needs <= known and (newly is None or not rule.needs or rule.needs & newly):
            found = rule.judge(layout, setting)
            if found is not None:
                yield Violation(rule.name, rank, *found)
