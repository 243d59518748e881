"""The best plan of one size that is faster than a given one, or the word that there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from solver.answer import layout_answer
from solver.assess import assess
from solver.cluster.cluster import cluster_from_request
from solver.errors import BadRequest, IllegalLayout
from solver.identity import plan_id
from solver.partition.outcome import EXACT
from solver.partition.stages import decided_stages
from solver.question import question
from solver.request import PlanRequest
from solver.search.regimes import regimes_of
from solver.search.search import Found, search


@dataclass(frozen=True)
class Size:
    """What a node count gives. ``seconds`` is None where nothing is faster than the ceiling.

    ``fits``: whether any plan fits at all, None where the ceiling ended the search first.
    """

    nodes: int
    seconds: float | None = None
    lower_bound: float = math.inf
    finished: bool = True
    facts: dict[str, Any] | None = None


def check_costs_of_any_size(job: PlanRequest) -> None:
    """Refuse a job that is described by the costs of one allocation.

    Raises:
        BadRequest: Its model is a profile.
    """
    if job.model.profile is not None:
        raise BadRequest(
            "A profile's costs are those of one allocation; they cannot be had for others.",
            field="job.model.profile",
            hint="Give the model by name, as a config.json or as Megatron-LM flags.",
        )


def planned(
    request: PlanRequest,
    nodes: int,
    ceiling: float,
    relative_gap: float,
    time_limit: float,
    smaller: int = 0,
) -> Size:
    """The best plan on ``nodes`` nodes that takes less than ``ceiling`` seconds.

    ``smaller``: a node count that is planned as well; layouts that it has room for are its own.
    """
    sized = at_size(request, nodes)
    try:
        asked = question(sized, to_plan=True, beyond_devices=_offered(sized, smaller))
    except IllegalLayout:
        return Size(nodes)
    if not asked.families:
        return Size(nodes)
    outcome = search(
        asked.families,
        asked.costs,
        regimes_of(asked),
        relative_gap=relative_gap,
        time_limit_seconds=time_limit,
        ceiling_seconds=ceiling,
        inputs_kept=asked.request.recompute.keeps_inputs,
        rough=asked.rough,
    )
    found = outcome.found
    if found is None:
        return Size(nodes, finished=not outcome.unfinished)
    return Size(
        nodes,
        seconds=found.partition.makespan,
        lower_bound=min(outcome.lower_bound, found.partition.makespan),
        finished=not outcome.unfinished,
        facts=_facts(sized, found),
    )


def _offered(sized: PlanRequest, smaller: int) -> int:
    """Devices up to which every layout is a plan of the ``smaller`` node count too.

    A larger allocation offers every pipeline the same numbers of replicas and more, at the same
    cost, unless its fast links join more devices.
    """
    if not smaller:
        return 0
    here = cluster_from_request(sized.cluster)
    there = cluster_from_request(at_size(sized, smaller).cluster)
    return there.devices if here.domain_size == there.domain_size else 0


def useful(sizes: Iterable[Size]) -> list[Size]:
    """The sizes, by node count, whose plan is faster than that of every smaller one."""
    best, found = math.inf, []
    for size in sizes:
        if size.seconds is not None and size.seconds < best * (1 - EXACT):
            best = size.seconds
            found.append(size)
    return found


def at_size(request: PlanRequest, nodes: int) -> PlanRequest:
    """The request on ``nodes`` nodes of its cluster."""
    cluster = request.cluster.model_copy(update={"nodes": nodes})
    return request.model_copy(update={"cluster": cluster})


def _facts(sized: PlanRequest, found: Found) -> dict[str, Any]:
    """What a point says of its plan."""
    stages = decided_stages(found.partition, found.menu)
    assessment = assess(found.costs, found.schedule, stages)
    return {
        "memory_headroom_bytes": assessment.capacity_bytes - assessment.peak_bytes,
        "layout": layout_answer(found.layout),
        "stages": [stop - start for start, stop in found.partition.cuts],
        "plan_id": plan_id(sized),
    }
