"""DeepSpeed: a split by one of its methods, one interval of checkpoints.

Read from deepspeedai/DeepSpeed at edaa7221 (August 2026): runtime/pipe/module.py and
runtime/utils.py. ``PipelineModule`` divides its list of layers by ``partition_method``:
``uniform``, ``parameters``, or ``type:`` and a layer class; there is no explicit list. The list is
taken to be the embedding, the layers, and the head. ``activation_checkpoint_interval`` k re-runs
every k consecutive layers of a stage as one; a group with a layer that is not in
``checkpointable_layers`` (the embedding, the head) keeps everything.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.menu import Menu, Part
from solver.partition.regime import Regime, Split
from solver.partition.ruled_menu import RuledMenu
from solver.plan import Export
from solver.recompute.choice import keep_all
from solver.recompute.policies import full
from solver.targets.layers import ENDS, framed, layer_count, layer_kinds
from solver.targets.planned import Planned, layers_of
from solver.targets.target import Target
from solver.targets.words import Remarks, json_export

LAYER_CLASS = "TransformerLayer"
"""The name that the export gives to the class of a layer."""

_BY_LAYERS = f"type:{LAYER_CLASS}"
METHODS = ("parameters", "uniform", _BY_LAYERS)
"""The ways to divide a list of layers."""


class DeepSpeed(Target):
    """Microsoft's DeepSpeed, its PipelineModule."""

    name = "deepspeed"
    title = "DeepSpeed"
    version = "edaa7221"
    zero_stages = (0, 1, 2, 3)
    sequence_parallel = False
    context_parallel = False
    defaults = {"sequence_parallel": False}  # noqa: RUF012 - a constant of the class

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:
        """Each method with each interval; an interval of 1 first."""
        stages = layout.pipeline_parallel
        several = len(layer_kinds(costs)) > 1
        most = 1 if several else layer_count(costs) - stages + 1
        splits = splits_by_method(costs, stages)
        return [
            Regime(
                menu=_menu(interval),
                setting=(
                    ("partition_method", method),
                    ("activation_checkpoint_interval", interval),
                ),
                splits=(split,),
            )
            for interval in (1, 0, *range(2, max(most, 1) + 1))
            for method, split in splits.items()
        ]

    def export(self, planned: Planned) -> Export:
        """The arguments of PipelineModule, and the configuration file."""
        layout, remarks = planned.layout, Remarks()
        setting = planned.setting
        if setting is None:
            setting = {"partition_method": "uniform", "activation_checkpoint_interval": 0}
            layers = [layers_of(stage) for stage in planned.stages]
            remarks.lost.append(
                f"DeepSpeed takes no list of layers such as the plan's {layers}, and one interval "
                "of recompute: `uniform` and no recompute are written."
            )
        else:
            remarks.known.append(
                "The layers per stage come out as "
                f"{[layers_of(stage) for stage in planned.stages]} where the list of layers is the "
                "embedding, the layers, and the head."
            )
        if layout.tensor_parallel > 1:
            remarks.known.append(
                "Tensor parallelism is the model's own business: give PipelineModule a topology "
                "with a model axis."
            )
        document: dict[str, object] = {
            "train_batch_size": planned.global_batch_size,
            "train_micro_batch_size_per_gpu": layout.micro_batch_size,
            "gradient_accumulation_steps": planned.micro_batches,
            "zero_optimization": {"stage": layout.zero_stage},
            "bf16": {"enabled": planned.precision in ("bf16", "fp8")},
            "pipeline": {
                "stages": layout.pipeline_parallel,
                "partition": setting["partition_method"],
                "activation_checkpoint_interval": setting["activation_checkpoint_interval"],
            },
        }
        if planned.precision == "fp16":
            document["fp16"] = {"enabled": True}
        remarks.known.append(
            "`pipeline` is for PipelineModule: num_stages, partition_method and "
            f"activation_checkpoint_interval, with checkpointable_layers=['{LAYER_CLASS}']."
        )
        return json_export(self, document, remarks)


def splits_by_method(costs: PipelineCosts, stages: int) -> dict[str, Split]:
    """What each method makes of the model, those that leave a stage empty left out."""
    blocks, layers = costs.blocks, layer_kinds(costs)
    weights = [blocks[kind].states.weights for kind in costs.sequence]
    counted = [float(kind in layers) for kind in costs.sequence]
    parts = {
        "parameters": balanced(weights, stages),
        "uniform": uniform(len(costs.sequence), stages),
        _BY_LAYERS: balanced(counted, stages),
    }
    return {
        method: tuple(itertools.pairwise(edges))
        for method, edges in parts.items()
        if all(a < b for a, b in itertools.pairwise(edges))
    }


def uniform(items: int, parts: int) -> list[int]:
    """Edges of parts of equal size, the first ones an item larger where it does not divide."""
    each, extra = divmod(items, parts)
    return [part * each + min(part, extra) for part in range(parts + 1)]


def balanced(weights: list[float], parts: int) -> list[int]:
    """Edges of parts of similar weight, as DeepSpeed's dynamic program finds them.

    For the first i items in j parts it extends what it found for fewer items in j - 1 parts by one
    more part, so that the heaviest part exceeds the lightest by least; of equals, by the shortest.
    """
    if len(weights) <= parts:
        return [min(part, len(weights)) for part in range(parts + 1)]
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    length = len(weights)
    heaviest = np.full((parts + 1, length + 1), np.inf)
    lightest = np.full((parts + 1, length + 1), np.inf)
    starts = np.zeros((parts + 1, length + 1), dtype=np.int64)
    heaviest[0, 0] = 0.0
    for part in range(1, parts + 1):
        for stop in range(part, length + 1):
            last = sums[stop] - sums[:stop]
            high = np.maximum(heaviest[part - 1, :stop], last)
            low = np.minimum(lightest[part - 1, :stop], last)
            spread = high - low
            start = stop - 1 - int(np.argmin(spread[::-1]))
            heaviest[part, stop], lightest[part, stop] = high[start], low[start]
            starts[part, stop] = start
    edges = [length]
    for part in range(parts, 0, -1):
        edges.append(int(starts[part, edges[-1]]))
    return edges[::-1]


def _menu(interval: int) -> Callable[[PipelineCosts], Menu]:
    """What an interval makes of a stage; above 1 only where all layers are of one kind."""

    def menu(costs: PipelineCosts) -> Menu:
        those = framed(costs)
        kept = [keep_all(block) for block in those.blocks]
        whole = [full(block) for block in those.blocks]
        names = [block.name for block in those.blocks]

        def rule(counts: tuple[int, ...]) -> tuple[Part, ...]:
            before = sum(n for n, name in zip(counts, names, strict=True) if name == ENDS[0])
            after = sum(n for n, name in zip(counts, names, strict=True) if name in ENDS[1:])
            parts = []
            for kind, count in enumerate(counts):
                plain = count
                if names[kind] not in ENDS and interval:
                    plain = _untouched(before, count, after, interval)
                parts.append(Part(kind, kept[kind], plain))
                parts.append(Part(kind, whole[kind], count - plain, max(interval, 1)))
            return tuple(part for part in parts if part.count)

        return RuledMenu(those, rule)

    return menu


def _untouched(before: int, layers: int, after: int, interval: int) -> int:
    """Layers whose group holds an end of the model, so that it keeps everything."""
    first = min(math.ceil(before / interval) * interval - before, layers)
    if not after:
        return first
    return first + (before + layers) % interval if layers > first else layers
