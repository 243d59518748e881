"""From decided stages and their assessment to the answer that a caller reads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from solver import plan
from solver.assess import Assessment, DeviceMemory
from solver.calibrations import Calibration
from solver.costs.pipeline import Account, PipelineCosts
from solver.costs.pipeline import Work as ModelWork
from solver.layouts.layout import Layout
from solver.layouts.schedules import takes_groups
from solver.partition.stages import Stage
from solver.recompute.choice import needed_tensors
from solver.schedules import Schedule, Work
from solver.search.outcome import Loser


def layout_answer(layout: Layout) -> plan.LayoutAnswer:
    """The layout, every field filled."""
    return plan.LayoutAnswer(
        tensor_parallel=layout.tensor_parallel,
        pipeline_parallel=layout.pipeline_parallel,
        context_parallel=layout.context_parallel,
        expert_parallel=layout.expert_parallel,
        data_parallel=layout.data_parallel,
        virtual_stages=layout.virtual_stages,
        micro_batch_size=layout.micro_batch_size,
        sequence_parallel=layout.sequence_parallel,
        zero_stage=layout.zero_stage,
        schedule=layout.schedule,
        expert_tensor_parallel=layout.expert_shards,
        interleaving_group=(
            layout.interleaving_group or layout.pipeline_parallel
            if takes_groups(layout.schedule, layout.virtual_stages)
            else None
        ),
        sharding_group=layout.sharding_group or layout.replicas,
        rank_order=layout.rank_order,
        context_method=layout.context_method,
        stage_pools=list(layout.stage_pools) or None,
    )


def evaluation(
    costs: PipelineCosts,
    layout: Layout,
    schedule: Schedule,
    stages: tuple[Stage, ...],
    assessment: Assessment,
    work: ModelWork | None,
    notes: list[str],
    calibration: Calibration | None = None,
    pools: tuple[str, ...] = (),
) -> plan.Evaluation:
    """The whole evaluation; tokens and utilisation are absent where the model is a profile.

    ``pools``: the device of each pool, where there are several.
    """
    devices = [pools[pool] for pool, count in layout.stage_pools for _ in range(count)]
    seconds = assessment.makespan
    tokens = utilisation = None
    if work is not None and seconds > 0:
        tokens = work.tokens / seconds / work.devices
        utilisation = work.model_flops / seconds / work.devices / work.peak_flops
    return plan.Evaluation(
        iteration_seconds=seconds,
        tokens_per_second_per_device=tokens,
        model_flops_utilization=utilisation,
        fits=assessment.fits,
        peak_memory_bytes=assessment.peak_bytes,
        memory_limit_bytes=assessment.capacity_bytes,
        layout=layout_answer(layout),
        micro_batches=costs.micro_batches,
        stages=[
            _stage(costs, schedule, position, stage, assessment).model_copy(
                update={"device": devices[schedule.device(position)] if devices else None}
            )
            for position, stage in enumerate(stages)
        ],
        breakdown=_breakdown(assessment),
        pipeline_send_seconds=costs.send_seconds,
        block_kinds=_block_kinds(costs),
        offload=_offload(costs, schedule, stages),
        notes=notes,
        calibration=_calibration_used(calibration),
        iteration_seconds_band=_band(seconds, calibration),
    )


def _offload(
    costs: PipelineCosts, schedule: Schedule, stages: tuple[Stage, ...]
) -> plan.OffloadAnswer | None:
    """What goes to the hosts; None where the plan is of a run that offloads nothing."""
    first = costs.at(0)
    if not costs.offload_bytes or first.host is None:
        return None
    limit = first.host.memory_bytes
    return plan.OffloadAnswer(
        bytes_per_second=first.host.bytes_per_second,
        host_memory_bytes=None if math.isinf(limit) else limit,
        host_peak_bytes=max(
            _at_host(schedule, stages, device) for device in range(schedule.devices)
        ),
        staging_bytes=max(one.staging_bytes for one in costs.different),
        block_bytes={
            block.name: most for block, most in zip(first.blocks, first.offload_bytes, strict=True)
        },
    )


def _at_host(schedule: Schedule, stages: tuple[Stage, ...], device: int) -> float:
    """The most that a device has in host memory, micro-batches counted along its order."""
    order = schedule.order(device)
    change = np.zeros(len(order))
    for stage in schedule.stages_of(device):
        away = sum(part.count * part.choice.offloaded_bytes for part in stages[stage].parts)
        here = order[:, 1] == stage
        change[here & (order[:, 0] == Work.FORWARD)] = away
        change[here & (order[:, 0] == Work.BACKWARD)] = -away
    return float(np.cumsum(change).max(initial=0.0))


def _calibration_used(calibration: Calibration | None) -> plan.CalibrationUsed | None:
    if calibration is None:
        return None
    band = calibration.band
    return plan.CalibrationUsed(
        name=calibration.name,
        version=calibration.version or "",
        runs=band.runs if band else None,
    )


def _band(seconds: float, calibration: Calibration | None) -> tuple[float, float] | None:
    """Between which seconds nine of ten measurements of such a run lie."""
    if calibration is None or calibration.band is None:
        return None
    return seconds * calibration.band.low, seconds * calibration.band.high


def _block_kinds(costs: PipelineCosts) -> dict[str, plan.BlockKind]:
    """What each kind of block of the model could keep."""
    return {
        block.name: plan.BlockKind(
            count=costs.sequence.count(number),
            input_bytes=block.input_bytes,
            tensors=[
                plan.Tensor(
                    name=op.name,
                    bytes=op.output_bytes,
                    forward_seconds=op.forward_seconds,
                    needed=op.name in needed_tensors(block),
                )
                for op in block.ops
            ],
        )
        for number, block in enumerate(costs.blocks)
    }


def _stage(
    costs: PipelineCosts, schedule: Schedule, position: int, stage: Stage, assessment: Assessment
) -> plan.Stage:
    time = assessment.times[position]
    memory = assessment.memory[schedule.device(position)]
    allocated = assessment.allocated[schedule.device(position)]
    chunked = schedule.virtual_stages > 1
    names = [costs.blocks[kind].name for kind in costs.sequence[stage.start : stage.stop]]
    return plan.Stage(
        index=schedule.device(position),
        chunk=schedule.stages_of(schedule.device(position)).index(position) if chunked else None,
        blocks=[(name, len(list(group))) for name, group in itertools.groupby(names)],
        forward_seconds=time.forward,
        backward_seconds=time.backward,
        weight_gradient_seconds=time.weight,
        recompute_seconds=time.recompute,
        hidden_recompute_seconds=time.hidden,
        recomputes_ahead=stage.ahead,
        ahead_seconds=time.ahead,
        gather_seconds=time.before_first,
        reduction_seconds=time.after_last,
        step_seconds=time.step,
        kept_bytes=sum(part.kept_bytes for part in stage.parts),
        waiting_bytes=assessment.waiting_bytes[position],
        in_flight=assessment.in_flight[position],
        peak_memory_bytes=memory.total,
        memory_limit_bytes=assessment.capacities[schedule.device(position)],
        allocated_peak_bytes=allocated.peak,
        allocated_steady_bytes=allocated.steady,
        allocated_peak_at=allocated.moment.value,
        memory=_memory(memory),
        recompute=[
            plan.BlockRecompute(
                block=costs.blocks[part.kind].name,
                count=part.count,
                recomputed=list(part.choice.recomputed),
                whole=part.choice.whole,
                repeated=list(part.choice.repeated),
                shares=dict(part.choice.shares),
                group=part.group,
                placed=[
                    plan.PlacedTensor(
                        tensor=placed.tensor, window=placed.window, following=placed.following
                    )
                    for placed in part.choice.placed
                ],
                offloaded=dict(part.choice.offloaded),
            )
            for part in stage.parts
        ],
    )


def _memory(memory: DeviceMemory) -> plan.StageMemory:
    return plan.StageMemory(
        weights=memory.states.weights,
        gradients=memory.states.gradients,
        optimizer=memory.states.optimizer,
        activations=memory.activations,
        recompute=memory.recompute,
        working=memory.working,
        reserved=memory.reserved,
        staging=memory.staging,
    )


def _breakdown(assessment: Assessment) -> plan.Breakdown:
    seconds = assessment.seconds
    return plan.Breakdown(
        compute=seconds.by_account[Account.COMPUTE],
        recompute=seconds.recompute,
        bubble=seconds.bubble,
        tensor_parallel=seconds.by_account[Account.TENSOR_PARALLEL],
        pipeline_parallel=(
            seconds.by_account[Account.PIPELINE_PARALLEL] + seconds.pipeline_parallel
        ),
        data_parallel=seconds.by_account[Account.DATA_PARALLEL] + seconds.data_parallel,
        optimizer=seconds.optimizer,
        context_parallel=seconds.by_account[Account.CONTEXT_PARALLEL],
        expert_parallel=seconds.by_account[Account.EXPERT_PARALLEL],
        other=seconds.other,
    )


def alternatives(
    losers: tuple[Loser, ...],
    iteration_seconds: float,
    most: int,
    reason_of: Callable[[Loser], plan.LostBy],
) -> list[plan.Alternative]:
    """The best of the layouts that did not win, those left out that may be as good as the plan."""
    lost = [
        loser
        for loser in losers
        if loser.makespan is not None or loser.lower_bound >= iteration_seconds * (1 - 1e-3)
    ]
    return [
        plan.Alternative(
            layout=layout_answer(loser.layout),
            iteration_seconds=loser.makespan,
            lower_bound_seconds=loser.lower_bound,
            slower=max((loser.makespan or loser.lower_bound) / iteration_seconds - 1.0, 0.0)
            if iteration_seconds
            else 0.0,
            reason=reason_of(loser),
        )
        for loser in lost[:most]
    ]
