"""The question of a model given as an architecture: by name, config.json or Megatron-LM flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from pydantic import JsonValue

from solver.calibrations import Calibration
from solver.cluster.cluster import Cluster, FabricBasis, cluster_from_request
from solver.costs.asymptote import asymptotic
from solver.costs.calibration import (
    Efficiencies,
    calibration,
    own_calibration,
    shipped,
    software_of,
    stages_that_cost_alike,
)
from solver.costs.collective_times import collective_times
from solver.costs.model import pipeline_costs, work
from solver.costs.pipeline import PipelineCosts
from solver.costs.pools import pooled_costs
from solver.errors import BadRequest
from solver.layouts import Family, Layout, families, layouts
from solver.question.asked import Calibrated, Question
from solver.request import Offload, PlanRequest
from solver.search.family_bounds import may_fit
from solver.search.members import Members
from solver.search.rough import RoughTotals
from solver.workload.architecture import Architecture
from solver.workload.implementation import Implementation
from solver.workload.megatron import completed, read_megatron_args


def of_architecture(
    request: PlanRequest,
    model: Architecture,
    to_plan: bool,
    beyond_devices: int = 0,
    implementation: Implementation | None = None,
    usual_ranks: bool = False,
) -> Question:
    if request.cluster.stage_devices is not None:
        raise BadRequest(
            "Devices are told stage by stage for a profile only.",
            field="cluster.stage_devices",
            hint="Leave it out; cluster.device says what the devices are.",
        )
    cluster = cluster_from_request(request.cluster, pools=True)
    _check_hosts(request, cluster)
    training = request.training
    used, own = _calibration(request, cluster)

    def software(layout: Layout) -> str:
        named = implementation.software if implementation else ""
        return named or software_of(training, layout)

    def efficiencies_on(pool: Cluster) -> Efficiencies:
        return own or partial(calibration, pool.device.name)

    def costs_on(
        pool: Cluster, layout: Layout, efficiencies: Efficiencies, stages: int | None = None
    ) -> PipelineCosts:
        return pipeline_costs(
            model,
            pool,
            training,
            layout,
            granularity=request.solver.granularity.value,
            efficiencies=efficiencies,
            implementation=implementation,
            stages=stages,
        )

    def costs(layout: Layout, efficiencies: Efficiencies | None = None) -> PipelineCosts:
        return costs_on(cluster, layout, efficiencies or efficiencies_on(cluster))

    def on_pools(layout: Layout, latencies: bool = True) -> PipelineCosts:
        def found(pool: Cluster) -> Efficiencies:
            return efficiencies_on(pool) if latencies else asymptotic(efficiencies_on(pool))

        return pooled_costs(
            cluster.pools,
            layout,
            lambda pool, stages: costs_on(pool, layout, found(pool), stages),
        )

    of_layout: Callable[[Layout], PipelineCosts] = on_pools if cluster.pools else costs

    of_plan: tuple[Family, ...] = ()
    of_evaluation: tuple[Layout, ...] = ()
    rough: RoughTotals | None = None
    if to_plan:
        kept = request.recompute.keeps_inputs
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
            software,
            costs,
        ),
        collectives=lambda layout: collective_times(
            model, cluster, training, layout, own, implementation
        ),
    )


def of_megatron(
    request: PlanRequest,
    arguments: Mapping[str, JsonValue] | str,
    to_plan: bool,
    beyond_devices: int,
) -> Question:
    run = read_megatron_args(arguments)
    filled = completed(request, run)
    asked = of_architecture(
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


def _check_hosts(request: PlanRequest, cluster: Cluster) -> None:
    """Refuse offload from devices of which nobody knows how they reach their host.

    Raises:
        BadRequest: There is such a device.
    """
    if request.recompute.offload is Offload.OFF:
        return
    for pool in cluster.pools or (cluster,):
        if pool.host is None or pool.host.bytes_per_second is None:
            raise BadRequest(
                f"How fast {pool.device.name} reaches its host is not known.",
                field="cluster.host_bytes_per_second",
                hint="Give it, in bytes per second and device, one direction, or leave "
                "recompute.offload out.",
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


def _fabric_notes(request: PlanRequest, cluster: Cluster) -> list[str]:
    """What to know of a network whose description states no rate."""
    if not request.cluster.fabric or cluster.fabric_basis is not FabricBasis.DEVICE_DEFAULT:
        return []
    return [
        f"No rate could be read from cluster.fabric; {cluster.inter_node_bytes_per_second:.3g} "
        "bytes per second and device, usual for the device, were taken. "
        "cluster.inter_node_bytes_per_second states another."
    ]
