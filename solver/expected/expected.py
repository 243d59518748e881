"""What a monitor may expect of a running plan: times, collectives, memory, each with a band.

The band of a time is the plan's own, that of the calibration it was made with; where that has none,
a tenth on either side.
"""

from __future__ import annotations

from collections.abc import Iterator

from solver.costs.collective_times import Collectives
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.expected.documents import (
    Band,
    ExpectedAnswer,
    ExpectedCollective,
    ExpectedRequest,
    ExpectedStage,
)
from solver.plan import LayoutAnswer, Plan, Stage
from solver.question import only_layout, question
from solver.request import LayoutRequest, PlanRequest

USUAL = (0.9, 1.1)
"""The band where no calibration states one."""


def expected(request: ExpectedRequest) -> ExpectedAnswer:
    """What is expected of a plan that succeeded.

    Raises:
        BadRequest: The plan has no stages.
    """
    plan = request.plan
    seconds, layout = plan.iteration_seconds, plan.layout
    if seconds is None or layout is None or not plan.stages:
        raise BadRequest(
            "Nothing is expected of a plan without stages.",
            field="plan",
            hint="Give a plan that succeeded.",
        )
    low, high = band_of(plan)
    return ExpectedAnswer(
        plan_id=plan.id,
        iteration_seconds=seconds,
        iteration_band=(low * seconds, high * seconds),
        tokens_per_second_per_device=plan.tokens_per_second_per_device,
        stages=[_stage(layout, stage, (low, high)) for stage in plan.stages],
        collectives=list(_collectives(request, (low, high))),
        notes=[
            "Seconds of collectives are those of one call that has its links to itself. Memory is "
            "exact for what the allocator hands out; the peak adds the plan's reserve."
        ],
    )


def band_of(plan: Plan) -> Band:
    """Between which multiples of what is expected a measurement is no news."""
    if plan.iteration_seconds_band is None or not plan.iteration_seconds:
        return USUAL
    low, high = plan.iteration_seconds_band
    return low / plan.iteration_seconds, high / plan.iteration_seconds


def as_run(job: PlanRequest, layout: LayoutAnswer) -> PlanRequest:
    """The request of an evaluation of the plan's layout."""
    filled = LayoutRequest.model_validate(layout.model_dump())
    return job.model_copy(update={"layout": filled})


def _stage(layout: LayoutAnswer, stage: Stage, band: Band) -> ExpectedStage:
    low, high = band
    forward, backward = stage.forward_seconds, stage.backward_seconds
    return ExpectedStage(
        index=stage.index,
        chunk=stage.chunk,
        ranks=_ranks(layout, stage.index),
        forward_seconds=forward,
        forward_band=(low * forward, high * forward),
        backward_seconds=backward,
        backward_band=(low * backward, high * backward),
        peak_memory_bytes=stage.peak_memory_bytes,
        allocated_peak_bytes=stage.allocated_peak_bytes,
        allocated_steady_bytes=stage.allocated_steady_bytes,
    )


def _ranks(layout: LayoutAnswer, device: int) -> tuple[int, int] | None:
    if not layout.rank_order.endswith("pp"):
        return None
    each = layout.tensor_parallel * layout.context_parallel * layout.data_parallel
    return device * each, (device + 1) * each - 1


def _collectives(request: ExpectedRequest, band: Band) -> Iterator[ExpectedCollective]:
    assert request.plan.layout is not None
    if request.job.model.profile is not None:
        return
    asked = question(as_run(request.job, request.plan.layout).model_copy(update={"target": None}))
    assert asked.collectives is not None, "only a profile does not know them"
    layout = only_layout(asked)
    found = asked.collectives(layout)
    for time in found.passes:
        yield ExpectedCollective(
            name=f"{time.account.value}.{time.kind}",
            kind=time.kind,
            devices=time.group.size,
            nodes=time.group.nodes,
            size_bytes=time.size_bytes,
            seconds=time.seconds,
            seconds_band=(band[0] * time.seconds, band[1] * time.seconds),
            bus_bytes_per_second=time.bus_bytes_per_second,
        )
    if found.replicas.size > 1 and layout.zero_stage < 2:
        yield from _of_states(request.plan, asked.costs(layout), found, layout.zero_stage, band)


def _of_states(
    plan: Plan, costs: PipelineCosts, found: Collectives, zero_stage: int, band: Band
) -> Iterator[ExpectedCollective]:
    """Reduction of gradients and gathering of weights of each stage, before any overlap.

    A block's buffer is a call of its own; here those of a stage are counted together.
    """
    kinds = {block.name: block for block in costs.blocks}
    group = found.replicas
    part = (group.size - 1) / group.size
    for stage in plan.stages:
        held = [(kinds[name], count) for name, count in stage.blocks]
        parameters = sum(n * block.states.weights for block, n in held) / found.weight_bytes
        reduction = sum(n * block.gradient_seconds for block, n in held)
        gather = sum(n * block.gather_seconds for block, n in held)
        kind, share = ("reduce-scatter", part) if zero_stage else ("all-reduce", 2 * part)
        calls = [(kind, share, found.gradient_bytes * parameters, reduction)]
        calls.append(("all-gather", part, found.weight_bytes * parameters, gather))
        for kind, share, size, seconds in calls:
            if seconds:
                yield ExpectedCollective(
                    name=f"data_parallel.{kind}",
                    kind=kind,
                    devices=group.size,
                    nodes=group.nodes,
                    stage=stage.index,
                    size_bytes=size,
                    seconds=seconds,
                    seconds_band=(band[0] * seconds, band[1] * seconds),
                    bus_bytes_per_second=share * size / seconds,
                )
