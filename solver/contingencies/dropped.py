"""The run without some of its replicas: the others share the batch, unevenly if need be.

With m_r micro-batches on replica r an iteration lasts as long as the pipeline with most of them,
max m_r = ceil(M / d) at best, and its collectives over d replicas (Oobleck, Jang et al., SOSP 2023,
section 5, for equal pipelines). It is the plan of d replicas with d x ceil(M / d) micro-batches. No
block changes its stage unless other cuts are faster by more than the asked gap; what blocks
recompute is chosen anew, as optimizer shards grow.
"""

from __future__ import annotations

from dataclasses import replace

from solver.contingencies.documents import ContingencyRequest
from solver.contingencies.running import Planned, largest_share, planned
from solver.errors import IllegalLayout
from solver.identity import plan_id
from solver.layouts import Layout
from solver.request import PlanRequest


def without_replicas(
    request: ContingencyRequest, running: Planned, lost: int
) -> tuple[Planned, str | None] | None:
    """The plan without ``lost`` replicas, and the id of the request that gives the same.

    None where what is left does not fit.
    """
    job = smaller(request.job, running.layout, lost, request_nodes(running.layout, lost, request))
    gap, seconds = request.relative_gap, request.seconds_per_size
    try:
        fresh = planned(job, None, gap, seconds)
    except IllegalLayout:
        return None
    if fresh is None:
        return None
    kept = None
    if running.layout.virtual_stages == 1 and fresh.split != running.split:
        kept = planned(job, running.split, gap, seconds)
    if kept is not None and kept.seconds <= fresh.seconds * (1 + gap):
        kept = replace(kept, lower_bound=min(kept.seconds, fresh.lower_bound))
        return kept, plan_id(job)
    return fresh, plan_id(job)


def request_nodes(layout: Layout, lost: int, request: ContingencyRequest) -> int:
    """Nodes of the replicas that are left."""
    left = layout.data_parallel - lost
    devices = layout.devices // layout.data_parallel * left
    per_node = request.job.cluster.devices_per_node or 1
    return -(-devices // per_node)


def smaller(job: PlanRequest, layout: Layout, lost: int, nodes: int) -> PlanRequest:
    """The request of a plan with fewer replicas, as many micro-batches as the fullest one has."""
    left = layout.data_parallel - lost
    batch = job.training.global_batch_size or 1
    micro_batches = largest_share(batch // layout.micro_batch_size, left)
    group = layout.sharding_group
    replicas = left * layout.context_parallel
    changes = {
        "data_parallel": left,
        "sharding_group": group if group and replicas % group == 0 else replicas,
    }
    return job.model_copy(
        update={
            "layout": job.layout.model_copy(update=changes),
            "cluster": job.cluster.model_copy(update={"nodes": nodes}),
            "training": job.training.model_copy(
                update={"global_batch_size": micro_batches * left * layout.micro_batch_size}
            ),
        }
    )
