"""The question behind a request: the layouts to consider, and the costs of each.

Every form of model ends here as the same thing, so that planning and evaluating need not know them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic import JsonValue

from solver.calibrations import Calibration
from solver.cluster.cluster import Cluster, FabricBasis, cluster_from_request, memory_capacity
from solver.costs.asymptote import asymptotic
from solver.costs.calibration import (
    Efficiencies,
    calibration,
    own_calibration,
    shipped,
    software_of,
    stages_that_cost_alike,
)
from solver.costs.collective_times import Collectives, collective_times
from solver.costs.model import pipeline_costs, work
from solver.costs.pipeline import PipelineCosts, Work
from solver.costs.pools import pooled_costs
from solver.costs.profile import on_device, profile_costs
from solver.errors import BadRequest, IllegalLayout
from solver.layouts import Family, Layout, families, layouts, listed, profile_layout
from solver.layouts.completions import refuse_lists, singles
from solver.partition.even import even_stages
from solver.partition.policy_menu import policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.request import (
    ChoicePer,
    Granularity,
    LayoutRequest,
    Model,
    Overlap,
    PlanRequest,
    Policy,
    Profile,
    Recompute,
    ScheduleName,
    StageDevice,
)
from solver.schedules import Schedule
from solver.search.family_bounds import may_fit
from solver.search.members import Members
from solver.search.rough import RoughTotals
from solver.targets.registry import target_named
from solver.targets.target import Target
from solver.workload.architecture import Architecture, MixtureOfExperts
from solver.workload.catalogue import architecture
from solver.workload.huggingface import architecture_from_huggingface
from solver.workload.implementation import DEFAULT_IMPLEMENTATION, Implementation
from solver.workload.megatron import completed, read_megatron_args


@dataclass(frozen=True)
class Calibrated:
    """What the seconds of a question rest on.

    ``used``: the calibration as answers name it. ``software``: the generation that runs a layout.
    ``costs``: of a layout under other efficiencies.
    """

    used: Calibration
    device: str
    software: Callable[[Layout], str]
    costs: Callable[[Layout, Efficiencies], PipelineCosts]


@dataclass(frozen=True)
class Question:
    """Candidate layouts in a fixed order, and what each costs.

    ``families`` are the layouts of a plan, ``layouts`` those that an evaluation might mean; only
    what was asked for is there. ``request`` is the request with everything filled that its model
    says of the run. ``work``
    gives what utilisation is measured against, or None for a profile. ``contents``: blocks on each
    stage where the model comes with its own split. ``target``: the framework that is to run it.
    ``calibrated``: None for a profile, which states its own seconds. ``rough``: what the families
    of a plan come to at least; None where their costs are at hand. ``pools``: the device of each,
    where there are several. ``collectives``: those of a layout, None for a profile.
    """

    request: PlanRequest

    layouts: tuple[Layout, ...]
    costs: Callable[[Layout], PipelineCosts]
    work: Callable[[Layout], Work | None]
    contents: tuple[int, ...] | None = None
    target: Target | None = None
    notes: list[str] = field(default_factory=list)
    families: tuple[Family, ...] = ()
    calibrated: Calibrated | None = None
    rough: RoughTotals | None = None
    pools: tuple[str, ...] = ()
    collectives: Callable[[Layout], Collectives] | None = None

    @property
    def some_layout(self) -> Layout:
        """Any of the layouts."""
        return self.families[0].member(0) if self.families else self.layouts[0]


def question(request: PlanRequest, *, to_plan: bool = False, beyond_devices: int = 0) -> Question:
    """Read a request, to evaluate the one layout that it means or to plan over all it admits.

    ``beyond_devices``: layouts that need no more devices than that are left out of a plan, be it
    all of them, unless devices are in pools.

    Raises:
        BadRequest: Something in it cannot be read, is missing, or breaks a rule (and subclasses).
    """
    _check_overlap(request.recompute)
    if request.recompute.overlap is Overlap.STALLS:
        _check_stalls(request.layout)
    if request.target is None:
        asked = _of_model(request, to_plan, beyond_devices)
    else:
        target = target_named(request.target.framework)
        asked = _for_target(request, target, to_plan, beyond_devices)
    if asked.families or asked.layouts:
        _check_policy(asked)
    if request.recompute.overlap in (None, Overlap.OFF):
        return asked
    return replace(asked, notes=[*asked.notes, _HIDES])


_HIDES = (
    "Recompute hides where recompute.overlap says. Frameworks as they come recompute on demand, so "
    "running this takes one that places recompute itself; the baseline no-overlap is the best plan "
    "without. Stages that share devices, and schedules that make gradients of weights apart, use "
    "windows of a block's own backward only, and no stalls."
)


def _check_stalls(layout: LayoutRequest) -> None:
    """Refuse stalls where no schedule that is asked for has recompute in them.

    Raises:
        BadRequest: Every one shares devices among stages, or makes gradients of weights apart.
    """
    plain = (ScheduleName.ONE_F_ONE_B, ScheduleName.GPIPE)
    schedules = layout.values("schedule")
    if schedules is not None and not set(plain).intersection(schedules):
        raise BadRequest(
            f"Recompute in stalls is planned for {' and '.join(name.value for name in plain)}.",
            field="layout.schedule",
            hint="Ask for one of them, or for overlap communication.",
        )
    chunks = layout.values("virtual_stages")
    if chunks is not None and 1 not in chunks:
        raise BadRequest(
            "Recompute in stalls is planned for one stage per device.",
            field="layout.virtual_stages",
            hint="Ask for 1, or for overlap communication.",
        )


def _check_overlap(recompute: Recompute) -> None:
    """Refuse to place what a fixed policy recomputes.

    Raises:
        BadRequest: The policy does not choose where it recomputes.
    """
    if recompute.overlap in (None, Overlap.OFF):
        return
    if recompute.choice_per is not ChoicePer.BLOCK:
        raise BadRequest(
            "Blocks that choose alike recompute on demand.",
            field="recompute.overlap",
            hint="Leave it out, or leave recompute.choice_per out.",
        )
    if recompute.policy not in (Policy.OPTIMAL, Policy.LYNX_HEU):
        raise BadRequest(
            f"Policy '{recompute.policy.value}' recomputes on demand; it places nothing in windows "
            "or stalls.",
            field="recompute.overlap",
            hint="Leave it out, give off, or let recompute.policy be optimal.",
        )


def _for_target(
    request: PlanRequest, target: Target, to_plan: bool, beyond_devices: int
) -> Question:
    """The question with only those layouts that a framework runs.

    Raises:
        BadRequest: It runs none of them; the error names what to change.
    """
    if request.solver.granularity is not Granularity.LAYER:
        raise BadRequest(
            f"{target.title} cannot cut a layer in two.",
            field="solver.granularity",
            hint="Leave it out, or leave out target.",
        )
    if request.recompute.overlap not in (None, Overlap.OFF):
        raise BadRequest(
            f"{target.title} recomputes on demand; it places nothing in windows or stalls.",
            field="recompute.overlap",
            hint="Leave it out, or leave out target.",
        )
    layout = request.layout
    open_fields = {k: v for k, v in target.defaults.items() if getattr(layout, k) is None}
    filled = request.model_copy(update={"layout": layout.model_copy(update=open_fields)})
    asked, found = _usual_layouts(filled)
    legal = tuple(layout for layout in found if target.refusal(layout) is None)
    if not legal:
        refusal = target.refusal(found[0])
        assert refusal is not None, "no layout is legal"
        raise IllegalLayout(
            refusal.detail,
            field=f"layout.{refusal.field}",
            hint=f"Nearest legal value: {refusal.nearest}.",
        )
    if not to_plan:
        return replace(asked, layouts=legal, target=target)
    legal = tuple(layout for layout in legal if layout.devices > beyond_devices)
    counts = [asked.costs(layout).micro_batches for layout in legal]
    return replace(asked, layouts=(), families=listed(legal, counts), target=target)


def _usual_layouts(request: PlanRequest) -> tuple[Question, tuple[Layout, ...]]:
    """The layouts of an evaluation, for every combination of listed values.

    Raises:
        BadRequest: None is legal; the error is the first one's.
    """
    asked: Question | None = None
    found: dict[Layout, None] = {}
    refused: IllegalLayout | None = None
    for layout in singles(request.layout):
        try:
            asked = _of_model(request.model_copy(update={"layout": layout}), to_plan=False)
        except IllegalLayout as error:
            refused = refused or error
        else:
            found |= dict.fromkeys(asked.layouts)
    if asked is None:
        assert refused is not None, "a request has at least one combination of values"
        raise refused
    return asked, tuple(found)


def _of_model(request: PlanRequest, to_plan: bool, beyond_devices: int = 0) -> Question:
    if request.model.profile is not None:
        _refuse_calibration(request)
        return _of_profile(request, request.model.profile, to_plan)
    if request.model.megatron_args is not None:
        return _of_megatron(request, request.model.megatron_args, to_plan, beyond_devices)
    return _of_architecture(request, _architecture(request.model), to_plan, beyond_devices)


def _check_policy(asked: Question) -> None:
    """Refuse at once a policy that lacks a number, or names modules that no layer has.

    Raises:
        BadRequest: The policy cannot be followed on this model.
    """
    recompute = asked.request.recompute
    if recompute.policy in _COMPLETE_POLICIES and recompute.choice_per is ChoicePer.BLOCK:
        return
    if recompute.choice_per is not ChoicePer.BLOCK and recompute.overlap not in (None, Overlap.OFF):
        raise BadRequest(
            "Recompute that hides is chosen block by block.",
            field="recompute.overlap",
            hint="Leave overlap out, or choice_per.",
        )
    costs = asked.costs(asked.some_layout)
    if recompute.policy is Policy.OPTIMAL:
        policy_regimes(costs, recompute)
    else:
        policy_menu(costs, recompute)


_COMPLETE_POLICIES = frozenset(
    {Policy.OPTIMAL, Policy.NONE, Policy.FULL, Policy.ADAPIPE, Policy.LYNX_HEU}
)
"""Policies that need nothing more than their name."""


def _architecture(model: Model) -> Architecture:
    if model.name is not None:
        return architecture(model.name)
    assert model.huggingface is not None, "exactly one form of model is given"
    return architecture_from_huggingface(model.huggingface)


def _of_architecture(
    request: PlanRequest,
    model: Architecture,
    to_plan: bool,
    beyond_devices: int = 0,
    implementation: Implementation = DEFAULT_IMPLEMENTATION,
    usual_ranks: bool = False,
) -> Question:
    if request.cluster.stage_devices is not None:
        raise BadRequest(
            "Devices are told stage by stage for a profile only.",
            field="cluster.stage_devices",
            hint="Leave it out; cluster.device says what the devices are.",
        )
    cluster = cluster_from_request(request.cluster, pools=True)
    training = request.training
    used, own = _calibration(request, cluster)

    def efficiencies_on(pool: Cluster) -> Efficiencies:
        return own or partial(calibration, pool.device.name)

    def costs_on(pool: Cluster, layout: Layout, efficiencies: Efficiencies) -> PipelineCosts:
        return pipeline_costs(
            model,
            pool,
            training,
            layout,
            granularity=request.solver.granularity.value,
            efficiencies=efficiencies,
            implementation=implementation,
        )

    def costs(layout: Layout, efficiencies: Efficiencies | None = None) -> PipelineCosts:
        return costs_on(cluster, layout, efficiencies or efficiencies_on(cluster))

    def on_pools(layout: Layout, latencies: bool = True) -> PipelineCosts:
        def found(pool: Cluster) -> Efficiencies:
            return efficiencies_on(pool) if latencies else asymptotic(efficiencies_on(pool))

        return pooled_costs(
            cluster.pools,
            training,
            layout,
            lambda pool: costs_on(pool, layout, found(pool)),
            lambda pool: found(pool)(implementation.software or software_of(training, layout)),
        )

    of_layout: Callable[[Layout], PipelineCosts] = on_pools if cluster.pools else costs

    of_plan: tuple[Family, ...] = ()
    of_evaluation: tuple[Layout, ...] = ()
    rough: RoughTotals | None = None
    if to_plan:
        kept = request.recompute.policy is not Policy.UNIFORM
        without_latencies = asymptotic(efficiencies_on(cluster))
        rough = RoughTotals(lambda layout: costs(layout, without_latencies))
        if cluster.pools:
            rough = RoughTotals(lambda layout: on_pools(layout, latencies=False))

        def fits(family: Family) -> bool:
            totals = rough.of(family)
            return totals is None or bool(may_fit(Members.of(family), totals, kept).any())

        alike = stages_that_cost_alike(training)
        of_plan = families(
            request.layout, model, cluster, training, alike, usual_ranks, fits, beyond_devices
        )
    else:
        of_evaluation = tuple(layouts(request.layout, model, cluster, training))
    return Question(
        request=request,
        layouts=of_evaluation,
        families=of_plan,
        costs=of_layout,
        work=lambda layout: work(model, cluster, training, layout),
        notes=[*cluster.notes, *_fabric_notes(request, cluster)],
        rough=rough,
        pools=tuple(pool.device.name for pool in cluster.pools),
        calibrated=None
        if cluster.pools
        else Calibrated(
            used,
            cluster.device.name,
            lambda layout: implementation.software or software_of(training, layout),
            costs,
        ),
        collectives=lambda layout: collective_times(
            model, cluster, training, layout, own, implementation
        ),
    )


def _calibration(request: PlanRequest, cluster: Cluster) -> tuple[Calibration, Efficiencies | None]:
    """The calibration that a request means, and its efficiencies where they are not what ships.

    Raises:
        BadRequest: It is named only, and nobody has looked it up; or it does not fit.
    """
    asked = request.calibration
    if asked is None:
        return shipped(cluster.device.name), None
    if cluster.pools:
        raise BadRequest(
            "A calibration is of one device, and the cluster has several.",
            field="calibration",
            hint="Leave it out.",
        )
    if not asked.has_content:
        raise BadRequest(
            f"Nothing is known here of a calibration '{asked.name}'.",
            field="calibration.name",
            hint="Name one that this service has (GET /v1/calibrations), or give its content, as "
            "`stagecut calibrate` writes it.",
        )
    return asked.essential(), own_calibration(asked, cluster.device.name)


def only_layout(asked: Question) -> Layout:
    """The one layout of an evaluation.

    Raises:
        BadRequest: The request leaves a choice.
    """
    if len(asked.layouts) == 1:
        return asked.layouts[0]
    for name in ("tensor_parallel", "pipeline_parallel", "data_parallel", "micro_batch_size"):
        values = sorted({getattr(layout, name) for layout in asked.layouts})
        if len(values) > 1:
            raise BadRequest(
                "An evaluation needs the whole layout.",
                field=f"layout.{name}",
                hint=f"Give it; legal here: {', '.join(map(str, values[:12]))}.",
            )
    raise BadRequest("An evaluation needs the whole layout.", field="layout")


def given_cuts(
    asked: Question, costs: PipelineCosts, schedule: Schedule
) -> tuple[tuple[int, int], ...]:
    """The model's own split where it has one for so many stages, else the even one."""
    if asked.contents is not None and len(asked.contents) == schedule.depth:
        edges = [0, *itertools.accumulate(asked.contents)]
        return tuple(itertools.pairwise(edges)) * (schedule.stages // schedule.depth)
    return even_stages(costs, schedule)


def has_experts(model: Architecture) -> bool:
    """Whether some layers are mixtures of experts."""
    return any(isinstance(layer.feed_forward, MixtureOfExperts) for layer, _ in model.layers)


def _fabric_notes(request: PlanRequest, cluster: Cluster) -> list[str]:
    """What to know of a network whose description states no rate."""
    if not request.cluster.fabric or cluster.fabric_basis is not FabricBasis.DEVICE_DEFAULT:
        return []
    return [
        f"No rate could be read from cluster.fabric; {cluster.inter_node_bytes_per_second:.3g} "
        "bytes per second and device, usual for the device, were taken. "
        "cluster.inter_node_bytes_per_second states another."
    ]


def _of_megatron(
    request: PlanRequest,
    arguments: Mapping[str, JsonValue] | str,
    to_plan: bool,
    beyond_devices: int,
) -> Question:
    run = read_megatron_args(arguments)
    filled = completed(request, run)
    asked = _of_architecture(
        filled,
        run.architecture,
        to_plan,
        beyond_devices,
        run.implementation,
        usual_ranks=True,
    )
    return replace(
        asked,
        contents=tuple(stage.blocks for stage in run.stages),
        notes=[*asked.notes, *run.notes],
    )


def _refuse_calibration(request: PlanRequest) -> None:
    if request.calibration is not None:
        raise BadRequest(
            "A profile states its own seconds; a calibration does not change them.",
            field="calibration",
            hint="Leave it out.",
        )


def _of_profile(request: PlanRequest, profile: Profile, to_plan: bool) -> Question:
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
    costs = profile_costs(profile, micro_batches, memory_capacity(request.cluster))
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
