"""The question behind a request: the layouts to consider, and the costs of each.

Every form of model ends here as the same thing, so that planning and evaluating need not know them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from solver.cluster.cluster import cluster_from_request, memory_capacity
from solver.costs.model import pipeline_costs, work
from solver.costs.pipeline import PipelineCosts, Work
from solver.costs.profile import profile_costs
from solver.errors import BadRequest
from solver.layouts import Layout, layouts, profile_layout
from solver.request import LayoutRequest, Model, PlanRequest, Profile
from solver.workload.architecture import Architecture
from solver.workload.catalogue import architecture
from solver.workload.huggingface import architecture_from_huggingface


@dataclass(frozen=True)
class Question:
    """Candidate layouts in a fixed order, and what each costs.

    ``work`` gives what utilisation is measured against, or None for a profile.
    """

    layouts: tuple[Layout, ...]
    costs: Callable[[Layout], PipelineCosts]
    work: Callable[[Layout], Work | None]
    notes: list[str] = field(default_factory=list)


def question(request: PlanRequest) -> Question:
    """Read a request.

    Raises:
        BadRequest: Something in it cannot be read, is missing, or breaks a rule (and subclasses).
    """
    if request.target is not None:
        raise BadRequest(
            f"No target framework '{request.target.framework}' is known.",
            field="target.framework",
            hint="Leave `target` out; the plan's exports say what each framework can express.",
        )
    if request.model.profile is not None:
        return _of_profile(request, request.model.profile)
    return _of_architecture(request, _architecture(request.model))


def _architecture(model: Model) -> Architecture:
    if model.name is not None:
        return architecture(model.name)
    if model.huggingface is not None:
        return architecture_from_huggingface(model.huggingface)
    raise BadRequest(
        "Megatron-LM flags cannot be read yet.",
        field="model.megatron_args",
        hint="Give model.huggingface or model.name.",
    )


def _of_architecture(request: PlanRequest, model: Architecture) -> Question:
    cluster = cluster_from_request(request.cluster)
    training = request.training
    return Question(
        layouts=tuple(layouts(request.layout, model, cluster, training)),
        costs=lambda layout: pipeline_costs(model, cluster, training, layout),
        work=lambda layout: work(model, cluster, training, layout),
    )


def _of_profile(request: PlanRequest, profile: Profile) -> Question:
    micro_batches = request.training.global_batch_size
    if micro_batches is None:
        raise BadRequest(
            "A model given as a profile needs the number of micro-batches per pipeline.",
            field="training.global_batch_size",
            hint="Give training.global_batch_size; with a profile it counts micro-batches.",
        )
    costs = profile_costs(profile, micro_batches, memory_capacity(request.cluster))
    return Question(
        layouts=tuple(_profile_layouts(request, len(costs.sequence))),
        costs=lambda _: costs,
        work=lambda _: None,
    )


def _profile_layouts(request: PlanRequest, blocks: int) -> list[Layout]:
    """The asked number of stages, or where it is free every number that the devices allow."""
    asked, cluster = request.layout, request.cluster
    if asked.pipeline_parallel is not None or cluster.nodes is None:
        return [profile_layout(asked, blocks)]
    devices = cluster.nodes * (cluster.devices_per_node or 1)
    sizes = range(1, min(devices, blocks // (asked.virtual_stages or 1)) + 1)
    return [profile_layout(_with_stages(asked, stages), blocks) for stages in sizes]


def _with_stages(asked: LayoutRequest, stages: int) -> LayoutRequest:
    return asked.model_copy(update={"pipeline_parallel": stages})
