"""Stages, chunks and the micro-batches that pass them: rules of pipelines and batches."""

from __future__ import annotations

from solver.layouts.layout import Layout
from solver.layouts.rule import Broken, rule
from solver.layouts.schedules import (
    chunks_misfit,
    devices_misfit,
    micro_batches_misfit,
    takes_groups,
)
from solver.layouts.setting import Setting

MOST_MICRO_BATCHES = 16_384
"""Micro-batches per pipeline and iteration that are simulated; runs have hundreds."""

MOST_PASSES = 1_048_576
"""Micro-batches times stages that are simulated."""


def _stages(layout: Layout, setting: Setting) -> Broken:
    layers = setting.architecture.num_layers
    stages = layout.pipeline_parallel * layout.virtual_stages
    if stages <= layers:
        return None
    field = "pipeline_parallel" if layout.pipeline_parallel > layers else "virtual_stages"
    return field, f"The model has {layers} layers, fewer than the {stages} stages."


STAGES = rule(
    "stages",
    "Every stage holds at least one layer.",
    "pipeline_parallel virtual_stages",
    _stages,
)


def _interleaving(layout: Layout, _: Setting) -> Broken:
    if layout.virtual_stages > 1 and layout.pipeline_parallel == 1:
        return "virtual_stages", "Virtual stages need pipeline parallel above 1."
    return None


INTERLEAVING = rule(
    "interleaving",
    "Interleaving shortens the pipeline's bubble; without a pipeline there is none.",
    "pipeline_parallel virtual_stages",
    _interleaving,
)


def _interleaving_schedule(layout: Layout, _: Setting) -> Broken:
    return chunks_misfit(layout.schedule, layout.virtual_stages)


INTERLEAVING_SCHEDULE = rule(
    "interleaving-schedule",
    "A schedule is made for as many chunks per device as it places there.",
    "virtual_stages schedule",
    _interleaving_schedule,
)


def _even_pipeline(layout: Layout, _: Setting) -> Broken:
    return devices_misfit(layout.schedule, layout.pipeline_parallel)


EVEN_PIPELINE = rule(
    "even-pipeline",
    "Two pipelines in opposite directions pair each device with the one across.",
    "pipeline_parallel schedule",
    _even_pipeline,
)


def _batch(layout: Layout, setting: Setting) -> Broken:
    if setting.global_batch_size % layout.data_parallel:
        return "data_parallel", (
            f"The global batch of {setting.global_batch_size} sequences is not divisible by data "
            f"parallel {layout.data_parallel}."
        )
    return None


BATCH = rule("batch", "Each replica takes the same number of sequences.", "data_parallel", _batch)


def _micro_batch(layout: Layout, setting: Setting) -> Broken:
    if setting.global_batch_size % (layout.data_parallel * layout.micro_batch_size):
        return "micro_batch_size", (
            f"The global batch of {setting.global_batch_size} sequences is not divisible by micro-"
            f"batches of {layout.micro_batch_size} on {layout.data_parallel} data-parallel "
            "replicas."
        )
    return None


MICRO_BATCH = rule(
    "micro-batch",
    "Each replica takes whole micro-batches.",
    "data_parallel micro_batch_size",
    _micro_batch,
)


def _pipeline_work(layout: Layout, setting: Setting) -> Broken:
    count = layout.micro_batches(setting.global_batch_size)
    passes = count * layout.pipeline_parallel * layout.virtual_stages
    if count <= MOST_MICRO_BATCHES and passes <= MOST_PASSES:
        return None
    return "micro_batch_size", (
        f"{count} micro-batches through {layout.pipeline_parallel * layout.virtual_stages} stages "
        f"are more than the {MOST_MICRO_BATCHES} micro-batches and {MOST_PASSES} passes that are "
        "simulated."
    )


PIPELINE_WORK = rule(
    "pipeline-work",
    "Every pass of an iteration is simulated.",
    "data_parallel micro_batch_size pipeline_parallel virtual_stages",
    _pipeline_work,
)


def _interleaving_rounds(layout: Layout, setting: Setting) -> Broken:
    if not takes_groups(layout.schedule, layout.virtual_stages):
        return None
    count = layout.micro_batches(setting.global_batch_size)
    group = layout.interleaving_group or layout.pipeline_parallel
    if group < layout.pipeline_parallel or 0 < count % group < layout.pipeline_parallel:
        if layout.interleaving_group:
            return "interleaving_group", (
                f"Groups of {group} micro-batches do not suit {count} micro-batches on "
                f"{layout.pipeline_parallel} pipeline devices: no group may be smaller than the "
                "pipeline."
            )
        return "micro_batch_size", (
            f"An interleaved schedule takes its micro-batches in rounds of the "
            f"{layout.pipeline_parallel} pipeline stages; {count} micro-batches are not a multiple."
        )
    return None


INTERLEAVING_ROUNDS = rule(
    "interleaving-rounds",
    "An interleaved schedule works in rounds of as many micro-batches as stages.",
    "virtual_stages pipeline_parallel data_parallel micro_batch_size",
    _interleaving_rounds,
)


def _even_batches(layout: Layout, setting: Setting) -> Broken:
    count = layout.micro_batches(setting.global_batch_size)
    odd = micro_batches_misfit(layout.schedule, count)
    return None if odd is None else ("micro_batch_size", odd)


EVEN_BATCHES = rule(
    "even-batches",
    "Two pipelines in opposite directions take half of the micro-batches each.",
    "schedule data_parallel micro_batch_size",
    _even_batches,
)
