"""The layout of a model given as a profile, where only the pipeline is the solver's business."""

from __future__ import annotations

from solver.errors import BadRequest, IllegalLayout
from solver.layouts.layout import Layout
from solver.request import LayoutRequest


def profile_layout(asked: LayoutRequest, blocks: int) -> Layout:
    """The layout of a profile of ``blocks`` blocks.

    The profile's costs are already those of one device, so the other sizes are only carried along.

    Raises:
        BadRequest: ``pipeline_parallel`` is not given; a profile leaves it to the caller.
        IllegalLayout: More stages than blocks, or virtual stages without a pipeline.
    """
    stages = asked.pipeline_parallel
    if stages is None:
        raise BadRequest(
            "A model given as a profile needs the number of pipeline stages.",
            field="layout.pipeline_parallel",
            hint=f"Give a number from 1 to {blocks}, the blocks of the profile.",
        )
    chunks = asked.virtual_stages or 1
    if stages > blocks:
        raise IllegalLayout(
            f"The profile has {blocks} blocks, fewer than the {stages} stages.",
            field="layout.pipeline_parallel",
            hint=f"Nearest legal value: {blocks}.",
        )
    if chunks > 1 and (stages == 1 or stages * chunks > blocks):
        raise IllegalLayout(
            "Virtual stages need pipeline parallel above 1."
            if stages == 1
            else f"The profile has {blocks} blocks, fewer than the {stages * chunks} stages.",
            field="layout.virtual_stages",
            hint=f"Nearest legal value: {1 if stages == 1 else blocks // stages}.",
        )
    return Layout(
        tensor_parallel=asked.tensor_parallel or 1,
        pipeline_parallel=stages,
        context_parallel=asked.context_parallel or 1,
        expert_parallel=asked.expert_parallel or 1,
        data_parallel=asked.data_parallel or 1,
        virtual_stages=chunks,
        micro_batch_size=asked.micro_batch_size or 1,
        sequence_parallel=bool(asked.sequence_parallel),
        zero_stage=1 if asked.zero_stage is None else asked.zero_stage,
        schedule="1f1b" if asked.schedule is None else asked.schedule.value,
        interleaving_group=asked.interleaving_group or 0,
    )
