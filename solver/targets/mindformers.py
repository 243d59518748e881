"""MindFormers (PyNative trainer): layer ranges per chunk, and recompute by layer and by module.

Read from mindspore-ai/mindformers at 167a50de (July 2026) and its release 2.1.0:
pynative/config/config.py, pynative/trainer/trainer.py, pynative/distributed/
activation_checkpoint.py and pipeline_parallel.py. Tensor parallelism goes with sequence parallelism
only; micro-batches follow from the batch sizes; states are sharded over as many replicas as
``data_parallel_shard`` says. Every chunk holds a layer at least. ``recompute.full_recompute_layer``
takes any layer ids, ``recompute.select_module`` layer ranges for each module path, layers in the
first list ignoring the second. A recomputed module keeps its input; attention and feed-forward are
used here. Graph mode is a target of its own (``mindformers_graph.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

from solver.costs.pipeline import Block, PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import BlockRecompute, Export
from solver.recompute.choice import Choice, choice_keeping, keep_all, needed_tensors
from solver.targets.layers import admits_layers
from solver.targets.planned import Planned, context_word, layer_choices
from solver.targets.regimes import any_choice, in_full, subsets
from solver.targets.sections import ATTENTION, FEED_FORWARD, section
from solver.targets.target import Refusal, Target
from solver.targets.words import Remarks, yaml_export

_MODULES = {"self_attention": ATTENTION, "mlp": FEED_FORWARD}
"""Module paths within a layer, and what of a layer they are."""


class MindFormers(Target):
    """MindSpore's MindFormers, its PyNative trainer."""

    name = "mindformers"
    title = "MindFormers"
    version = "2.1.0, 167a50de (PyNative)"
    schedules = ("1f1b", "gpipe")
    virtual_stages = True

    def refusal(self, layout: Layout) -> Refusal | None:
        """Why it does not run this layout, or None."""
        if layout.tensor_parallel > 1 and not layout.sequence_parallel:
            return Refusal(
                "sequence_parallel",
                "MindFormers' PyNative trainer splits tensors only together with sequences.",
                "true",
            )
        return super().refusal(layout)

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:  # noqa: ARG002
        """Every layer for itself: all of it, its attention, its feed-forward, both, or nothing."""
        return [any_choice((), _choices, admits_layers(costs, head_alone=False))]

    def export(self, planned: Planned) -> Export:
        """The parallelism and recompute parts of a training configuration."""
        layout, remarks = planned.layout, Remarks()
        context_word(planned, self.title, {"ring": "colossalai_cp"}, remarks)
        interleaved = layout.virtual_stages > 1
        parallelism: dict[str, object] = {
            "tensor_parallel": layout.tensor_parallel,
            "context_parallel": layout.context_parallel,
            "sequence_parallel": layout.sequence_parallel,
            "data_parallel_shard": layout.data_parallel if layout.zero_stage else 1,
            "pipeline_parallel": layout.pipeline_parallel,
        }
        if layout.zero_stage == 1 and layout.data_parallel > 1:
            parallelism["reshard_after_forward_policy"] = "never"
            remarks.known.append(
                "FSDP stands for ZeRO 1: it shards gradients as well, so memory is a little less."
            )
        if layout.expert_parallel > 1:
            parallelism["expert_parallel"] = layout.expert_parallel
        if layout.pipeline_parallel > 1:
            schedule = "interleaved_1f1b" if interleaved else layout.schedule
            parallelism |= {
                "pipeline_parallel_interleave_num": layout.virtual_stages,
                "pipeline_parallel_schedule": schedule,
                "pipeline_parallel_layers_per_stage": _ranges(planned),
            }
        document: dict[str, object] = {
            "training": {
                "local_batch_size": layout.micro_batch_size,
                "global_batch_size": planned.global_batch_size,
            },
            "parallelism": parallelism,
        }
        recompute = _recompute(planned, remarks)
        if recompute:
            document["recompute"] = recompute
        return yaml_export(self, document, remarks)


def _choices(block: Block) -> list[Choice]:
    """What a layer may do; the model's ends keep everything."""
    if not block.checkpointable:
        return [keep_all(block)]
    needed = needed_tensors(block)
    found = [keep_all(block), in_full(block)]
    for chosen in subsets(sorted(_MODULES)):
        names = frozenset().union(*(section(block, _MODULES[module]) for module in chosen))
        if needed & names:
            found.append(choice_keeping(block, needed - names))
    return found


def _ranges(planned: Planned) -> list[str]:
    """Per device the layers of its chunks, as ``0-3,8-11``."""
    devices = planned.layout.pipeline_parallel
    shown = [_range(first, stop) for first, stop in planned.ranges]
    return [",".join(shown[device::devices]) for device in range(devices)]


def _range(first: int, stop: int) -> str:
    return str(first) if stop - first == 1 else f"{first}-{stop - 1}"


def _recompute(planned: Planned, remarks: Remarks) -> dict[str, object]:
    """Layers to recompute in full, and modules with their layers."""
    whole: list[int] = []
    outside: dict[tuple[str, ...], list[int]] = {}
    modules: dict[str, list[int]] = {module: [] for module in _MODULES}
    for stage, (first, _) in zip(planned.stages, planned.ranges, strict=True):
        for layer, entry in enumerate(layer_choices(stage), start=first):
            if entry.whole:
                whole.append(layer)
                continue
            found, rest = _recomputed_modules(entry)
            for module in found:
                modules[module].append(layer)
            if rest:
                outside.setdefault(rest, []).append(layer)
    for rest, layers in outside.items():
        remarks.lost.append(
            f"Layers {', '.join(spans(layers))} recompute {', '.join(rest)} as well."
        )
    if planned.setting is None and any(modules.values()):
        again = [f"{name} of layers {', '.join(spans(them))}" for name, them in modules.items()]
        some = "; ".join(words for words, them in zip(again, modules.values(), strict=True) if them)
        remarks.lost.append(f"MindFormers runs whole modules again, not tensors: {some}.")
    chosen = {name: list(spans(layers)) for name, layers in modules.items() if layers}
    if not whole and not chosen:
        return {}
    said: dict[str, object] = {"mode": "select" if chosen else "full"}
    if whole:
        said["full_recompute_layer"] = list(spans(whole))
    if chosen:
        said["select_module"] = chosen
    return said


def _recomputed_modules(entry: BlockRecompute) -> tuple[list[str], tuple[str, ...]]:
    """The modules that a layer recomputes, and the tensors outside of them."""
    names = set(entry.recomputed)
    found = [module for module, place in _MODULES.items() if names & place.of(entry.recomputed)]
    outside = names - set().union(*(_MODULES[module].of(names) for module in found))
    return found, tuple(sorted(outside))


def spans(numbers: Iterable[int]) -> Iterable[str]:
    """Ascending numbers as single ones and ranges ``a-b``."""
    ordered = sorted(numbers)
    first = 0
    for place in range(1, len(ordered) + 1):
        if place == len(ordered) or ordered[place] != ordered[place - 1] + 1:
            yield _range(ordered[first], ordered[place - 1] + 1)
            first = place
