"""The question of a model given as a profile, which states its own seconds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from solver.cluster.cluster import memory_capacity
from solver.costs.pipeline import Host, PipelineCosts
from solver.costs.profile import on_device, profile_costs
from solver.errors import BadRequest, IllegalLayout
from solver.layouts import Layout, listed, profile_layout
from solver.layouts.completions import refuse_lists
from solver.question.asked import Question
from solver.request import (
    Granularity,
    Offload,
    PlanRequest,
    Profile,
    ScheduleName,
    StageDevice,
)


def of_profile(request: PlanRequest, profile: Profile, to_plan: bool) -> Question:
    micro_batches = request.training.global_batch_size
    if micro_batches is None:
        raise BadRequest(
            "A model given as a profile needs the number of micro-batches per pipeline.",
            field="training.global_batch_size",
            hint="Give training.global_batch_size; with a profile it counts micro-batches.",
        )
    if request.solver.granularity is not Granularity.LAYER:
        raise BadRequest(
            "A profile is cut between its blocks only.",
            field="solver.granularity",
            hint="Leave it out; give the halves of a layer as blocks of their own.",
        )
    host = _host(request)
    costs = profile_costs(profile, micro_batches, memory_capacity(request.cluster), host)
    if request.cluster.stage_devices is not None:
        costs = _on_different_devices(request, costs, request.cluster.stage_devices)
    found = tuple(_profile_layouts(request, len(costs.sequence), micro_batches, to_plan))
    return Question(
        request=request,
        layouts=() if to_plan else found,
        families=listed(found, [micro_batches] * len(found)) if to_plan else (),
        costs=lambda _: costs,
        work=lambda _: None,
    )


def _host(request: PlanRequest) -> Host | None:
    """Where a profile's activations may be offloaded to.

    Raises:
        BadRequest: They are to be, and the link is not known.
    """
    link, memory = request.cluster.host_bytes_per_second, request.cluster.host_memory_bytes
    if request.recompute.offload is Offload.OFF:
        return None
    if link is None:
        raise BadRequest(
            "How fast a device reaches its host is not known.",
            field="cluster.host_bytes_per_second",
            hint="Give it, in bytes per second, one direction.",
        )
    return Host(link, math.inf if memory is None else memory)


def _on_different_devices(
    request: PlanRequest, costs: PipelineCosts, devices: Sequence[StageDevice]
) -> PipelineCosts:
    """A profile's costs where every stage has a device of its own.

    Raises:
        BadRequest: Not one device per stage, or several stages per device.
    """
    refuse_lists(request.layout)
    stages = request.layout.pipeline_parallel
    if stages != len(devices):
        raise BadRequest(
            f"{len(devices)} devices are given for "
            f"{'an open number of' if stages is None else stages} pipeline stages.",
            field="cluster.stage_devices",
            hint=f"Set layout.pipeline_parallel to {len(devices)}, or give one entry per stage.",
        )
    shared = request.layout.schedule in (ScheduleName.ZB_V, ScheduleName.CHIMERA)
    if request.layout.values("virtual_stages") not in (None, (1,)) or shared:
        raise BadRequest(
            "Pipelines of different devices are planned with one stage per device.",
            field="layout.schedule" if shared else "layout.virtual_stages",
            hint="Leave cluster.stage_devices out, or ask for another schedule."
            if shared
            else "Leave virtual_stages or cluster.stage_devices out.",
        )
    return replace(
        costs,
        devices=tuple(
            on_device(costs, device.memory_bytes or costs.capacity_bytes, device.slowdown)
            for device in devices
        ),
    )


def _profile_layouts(
    request: PlanRequest, blocks: int, micro_batches: int, to_plan: bool
) -> list[Layout]:
    """The asked numbers of stages, or where it is free every number that the devices allow.

    Raises:
        IllegalLayout: No number of stages is legal; the error is the largest one's.
        BadRequest: An evaluation lists several values.
    """
    asked, cluster = request.layout, request.cluster
    if not to_plan:
        refuse_lists(asked)
    stages = asked.values("pipeline_parallel")
    if stages is None and cluster.nodes is not None:
        devices = cluster.nodes * (cluster.devices_per_node or 1)
        stages = tuple(range(1, min(devices, blocks) + 1))
    wanted = {
        "pipeline_parallel": stages or (None,),
        "virtual_stages": asked.values("virtual_stages") or (None,),
        "schedule": asked.values("schedule") or (None,),
    }
    legal, illegal = [], []
    for values in itertools.product(*wanted.values()):
        one = asked.model_copy(update=dict(zip(wanted, values, strict=True)))
        try:
            legal.append(profile_layout(one, blocks, micro_batches))
        except IllegalLayout as error:
            illegal.append(error)
    if not legal:
        raise illegal[-1]
    return legal


def refuse_calibration(request: PlanRequest) -> None:
    if request.calibration is not None:
        raise BadRequest(
            "A profile states its own seconds; a calibration does not change them.",
            field="calibration",
            hint="Leave it out.",
        )
