"""A plan on the small model: as many stages, layers in proportion, the same tensors recomputed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from solver.costs.pipeline import Block
from solver.plan import BlockRecompute, Plan
from solver.recompute.choice import choice_keeping, needed_tensors
from solver.targets.planned import layer_choices

_AS = {
    "query": "query_key",
    "key": "query_key",
    "query_down": "query_key",
    "query_up": "query_key",
    "key_up": "query_key",
    "key_value_down": "query_key",
    "value_up": "value",
    "attention_scores": "core_attention",
    "attention_softmax": "core_attention",
    "attention_weights": "core_attention",
    "feed_forward_gate": "feed_forward_in",
    "router_input": "feed_forward_norm",
    "expert_permute": "feed_forward_norm",
    "expert_in": "feed_forward_in",
    "expert_gate": "feed_forward_in",
    "shared_expert_in": "feed_forward_in",
    "shared_expert_gate": "feed_forward_in",
    "expert_activation": "feed_forward_activation",
    "shared_expert_activation": "feed_forward_activation",
    "expert_weighting": "feed_forward_activation",
}
"""Tensors of other models, and those of the small layer that stand for them."""


@dataclass(frozen=True)
class Small:
    """What is run: layers per stage, and what each layer recomputes, in model order.

    ``left_out``: tensors of the plan that the small layer has none for.
    """

    layers: tuple[int, ...]
    recomputed: tuple[frozenset[str], ...]
    schedule: str
    devices: int
    micro_batches: int
    left_out: tuple[str, ...] = ()


def scaled(plan: Plan, block: Block, most_layers: int, most_micro_batches: int) -> Small:
    """The plan on at most so many layers and micro-batches.

    Every stage that holds layers keeps one at least, and its layers' choices in proportion.

    Args:
        plan: A plan that succeeded.
        block: The small layer.
        most_layers: Layers of the small model.
        most_micro_batches: Of an iteration; interleaved pipelines take whole rounds.
    """
    assert plan.layout is not None
    assert plan.micro_batches is not None
    total = sum(len(layer_choices(stage)) for stage in plan.stages)
    share = min(most_layers / max(total, 1), 1.0)
    layers, recomputed, left_out = [], [], set[str]()
    for stage in plan.stages:
        choices = layer_choices(stage)
        count = max(round(len(choices) * share), 1) if choices else 0
        layers.append(count)
        for place in range(count):
            entry = choices[int((place + 0.5) * len(choices) / count)]
            names, missing = _names(entry, block)
            recomputed.append(names)
            left_out |= missing
    devices = plan.layout.pipeline_parallel
    micro_batches = min(plan.micro_batches, most_micro_batches)
    if plan.layout.virtual_stages > 1:
        micro_batches = max(micro_batches // devices, 1) * devices
    return Small(
        layers=tuple(layers),
        recomputed=tuple(recomputed),
        schedule=plan.layout.schedule,
        devices=devices,
        micro_batches=micro_batches,
        left_out=tuple(sorted(left_out)),
    )


def beside(small: Small, names: frozenset[str]) -> Small:
    """The same pipeline with layers divided evenly, each recomputing the same."""
    total, stages = sum(small.layers), len(small.layers)
    each, extra = divmod(total, stages)
    layers = tuple(each + (stage < extra) for stage in range(stages))
    return Small(layers, (names,) * total, small.schedule, small.devices, small.micro_batches)


def everything(block: Block) -> frozenset[str]:
    """What full recompute runs again."""
    return frozenset(choice_keeping(block, ()).recomputed)


def _names(entry: BlockRecompute, block: Block) -> tuple[frozenset[str], set[str]]:
    """What the small layer recomputes for an entry of the plan, and what it has no tensor for."""
    if entry.whole:
        return everything(block), set()
    ops = {op.name for op in block.ops}
    mapped = {name: _AS.get(name, name) for name in entry.recomputed}
    dropped = needed_tensors(block) & set(mapped.values())
    missing = {name for name, here in mapped.items() if here not in ops}
    return frozenset(choice_keeping(block, needed_tensors(block) - dropped).recomputed), missing


def first_layers(small: Small) -> list[int]:
    """The number of each stage's first layer."""
    return [0, *itertools.accumulate(small.layers)][:-1]
