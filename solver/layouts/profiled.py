"""The layout of a model given as a profile, where only the pipeline is the solver's business."""

from __future__ import annotations

from solver.errors import BadRequest, IllegalLayout
from solver.layouts.completions import refuse_lists, usual_layout
from solver.layouts.layout import Layout
from solver.layouts.rules_of_pipelines import MOST_MICRO_BATCHES, MOST_PASSES
from solver.layouts.schedules import (
    NAMES,
    chunks_misfit,
    devices_misfit,
    micro_batches_misfit,
    suits,
    takes_groups,
)
from solver.request import LayoutRequest
from solver.schedules import SCHEDULES


def profile_layout(asked: LayoutRequest, blocks: int, micro_batches: int) -> Layout:
    """The layout of a profile of ``blocks`` blocks.

    The profile's costs are already those of one device, so the other sizes are only carried along.

    Raises:
        BadRequest: ``pipeline_parallel`` is not given; a profile leaves it to the caller.
        IllegalLayout: More stages than blocks, virtual stages without a pipeline, or chunks,
            devices, micro-batches or groups of them that the schedule cannot take.
    """
    refuse_lists(asked)
    usual = usual_layout(asked)
    stages, chunks = usual.pipeline_parallel, usual.virtual_stages
    if asked.pipeline_parallel is None:
        raise BadRequest(
            "A model given as a profile needs the number of pipeline stages.",
            field="layout.pipeline_parallel",
            hint=f"Give a number from 1 to {blocks}, the blocks of the profile.",
        )
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
    if micro_batches > MOST_MICRO_BATCHES or micro_batches * stages * chunks > MOST_PASSES:
        raise IllegalLayout(
            f"{micro_batches} micro-batches through {stages * chunks} stages are more than is "
            "simulated.",
            field="training.global_batch_size",
            hint=f"Give {min(MOST_MICRO_BATCHES, MOST_PASSES // (stages * chunks))} or fewer; with "
            "a profile it counts micro-batches per pipeline.",
        )
    schedule = usual.schedule
    _check_schedule(schedule, stages, chunks, micro_batches)
    if takes_groups(schedule, chunks):
        _check_interleaving(asked, stages, micro_batches)
    return usual


def _check_schedule(schedule: str, stages: int, chunks: int, micro_batches: int) -> None:
    """As many chunks as the schedule is made for, and halves where it needs them."""
    broken = chunks_misfit(schedule, chunks)
    nearest = [name for name in NAMES if suits(name, chunks)]
    if broken is not None and broken[0] == "virtual_stages":
        nearest = [str(SCHEDULES[schedule].chunks)]
    if broken is None:
        broken = devices_misfit(schedule, stages)
        nearest = [str(size) for size in (stages - 1, stages + 1) if size]
    if broken is not None:
        raise IllegalLayout(broken[1], field=f"layout.{broken[0]}", hint=_nearest(nearest))
    odd = micro_batches_misfit(schedule, micro_batches)
    if odd is not None:
        nearest = [str(size) for size in (micro_batches - 1, micro_batches + 1) if size]
        raise IllegalLayout(odd, field="training.global_batch_size", hint=_nearest(nearest))


def _nearest(values: list[str]) -> str:
    plural = "s" if len(values) > 1 else ""
    return f"Nearest legal value{plural}: {' or '.join(values)}."


def _check_interleaving(asked: LayoutRequest, stages: int, micro_batches: int) -> None:
    """No group of micro-batches smaller than the pipeline: its order could wait for itself."""
    group = asked.interleaving_group or stages
    if group >= stages and not 0 < micro_batches % group < stages:
        return
    if asked.interleaving_group:
        raise IllegalLayout(
            f"Groups of {group} micro-batches do not suit {micro_batches} micro-batches on "
            f"{stages} pipeline devices: no group may be smaller than the pipeline.",
            field="layout.interleaving_group",
            hint=f"Leave it out, or give {stages} or more.",
        )
    below = micro_batches // stages * stages
    nearest = [str(count) for count in (below, below + stages) if count]
    raise IllegalLayout(
        f"An interleaved schedule takes its micro-batches in rounds of the {stages} pipeline "
        f"stages; {micro_batches} micro-batches are not a multiple.",
        field="training.global_batch_size",
        hint=_nearest(nearest),
    )
