"""The capacity curve of a job: every size planned, each with the best of the smaller as ceiling.

A size is useful if it is faster than every smaller one, so its search may give up whatever is not:
most layouts of a size that fits the model badly end at their first bound. With unused devices
allowed the curve never falls. Sizes are dealt to several processes in ascending order; which
smaller ones a size must beat does not depend on which of them are done.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from solver.capacity.documents import (
    CapacityAnswer,
    CapacityRequest,
    Curve,
    GoodputParameters,
    Point,
    Spread,
)
from solver.capacity.goodput import fit
from solver.capacity.planners import Limits, Planners
from solver.capacity.sizes import Size, at_size, check_costs_of_any_size, useful
from solver.cluster.cluster import cluster_from_request
from solver.errors import BadRequest, IllegalLayout, part_of_request
from solver.identity import content_id
from solver.progress import Progress
from solver.question import question
from solver.request import PlanRequest, SwitchLevel

Sized = Callable[[int], PlanRequest]
"""The job on so many nodes."""

_FEWEST_FOR_FIT = 4


def capacity(
    request: CapacityRequest,
    *,
    progress: Callable[[Progress], None] | None = None,
    processes: int | None = None,
) -> CapacityAnswer:
    """The curves of a job, one per kind of node and placement.

    Args:
        request: The job and its allocations.
        progress: Told of every size that is done.
        processes: Planned at the same time; by default as many as there are processors.

    Raises:
        BadRequest: The job cannot be planned whatever the size.
    """
    started = time.monotonic()
    check(request)
    variants = list(_variants(request))
    total = sum(len(counts) for _, _, _, counts in variants)
    done = 0

    def report() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(Progress(None, 0.0, done, total))

    curves: list[Curve] = []
    late: list[int] = []
    with Planners(total, processes) as planners:
        for device, placement, job_of, counts in variants:
            limits = Limits(
                request.relative_gap,
                request.seconds_per_size,
                started + request.time_limit_seconds,
            )
            sizes = planners.plan(job_of, counts, limits, report)
            late += [size.nodes for size in sizes if not size.finished]
            curves.append(_curve(device, placement, job_of, counts, sizes))
    feasible = any(curve.smallest_feasible for curve in curves)
    return CapacityAnswer(
        id=content_id("capacity", request),
        status="succeeded" if feasible else "infeasible",
        global_batch_size=request.job.training.global_batch_size,
        curves=curves,
        seconds=time.monotonic() - started,
        notes=_notes(late),
    )


def _notes(late: list[int]) -> list[str]:
    if not late:
        return []
    some = ", ".join(str(nodes) for nodes in late[:12]) + (", ..." if len(late) > 12 else "")
    return [
        f"Time ran out before the search was complete at {some} nodes: what stands there is the "
        "best plan so far. A larger seconds_per_size or time_limit_seconds completes them."
    ]


def check(request: CapacityRequest) -> None:
    """Refuse a job that no size can plan.

    Raises:
        BadRequest: The reason that its largest size gives.
    """
    for _, _, job_of, counts in _variants(request):
        _check(job_of, counts)


def _variants(request: CapacityRequest) -> Iterator[tuple[str, str, Sized, list[int]]]:
    """Device, placement, job by node count, and node counts of every curve."""
    counts = list(request.nodes.counts)
    for job in _jobs(request):
        with part_of_request("job"):
            cluster = cluster_from_request(at_size(job, counts[0]).cluster)
        if request.spread is None:
            yield cluster.device.name, "any", partial(at_size, job), counts
            continue
        within = [count for count in counts if count <= request.spread.nodes_per_leaf]
        if within:
            yield cluster.device.name, "one-leaf", partial(_on_one_leaf, job), within
        several = [count for count in counts if count > 1]
        if several:
            spread_out = partial(_on_several_leafs, job, request.spread)
            yield cluster.device.name, "several-leafs", spread_out, several


def _on_one_leaf(job: PlanRequest, nodes: int) -> PlanRequest:
    """The job on so many nodes without a switch between them."""
    return _below(at_size(job, nodes), nodes, 1.0)


def _on_several_leafs(job: PlanRequest, spread: Spread, nodes: int) -> PlanRequest:
    """The job on so many nodes of several leafs: of two, half on each, where two are enough."""
    sized = at_size(job, nodes)
    cluster = cluster_from_request(sized.cluster)
    joined = cluster.domain_size // cluster.devices_per_node  # by links that know no leafs
    each = max(min(spread.nodes_per_leaf, -(-nodes // 2)), joined)
    return _below(sized, each, spread.oversubscription)


def _below(job: PlanRequest, nodes: int, oversubscription: float) -> PlanRequest:
    """The job with so many nodes below a leaf; what is said of switches above them stays."""
    above = [each for each in job.cluster.switches or [] if each.nodes > nodes]
    leafs = SwitchLevel(nodes=nodes, oversubscription=oversubscription)
    cluster = job.cluster.model_copy(update={"switches": [leafs, *above]})
    return job.model_copy(update={"cluster": cluster})


def _jobs(request: CapacityRequest) -> Iterator[PlanRequest]:
    if not request.devices:
        yield request.job
    for kind in request.devices:
        changes = {"device": kind.device, "fabric": None, "memory_bytes": None}
        changes["inter_node_bytes_per_second"] = kind.inter_node_bytes_per_second  # type: ignore[assignment]
        if kind.devices_per_node is not None:
            changes["devices_per_node"] = kind.devices_per_node  # type: ignore[assignment]
        cluster = request.job.cluster.model_copy(update=changes)
        yield request.job.model_copy(update={"cluster": cluster})


def _check(job_of: Sized, counts: list[int]) -> None:
    """Refuse a job that no size can plan, for the reason that its largest size gives."""
    check_costs_of_any_size(job_of(counts[0]))
    failed: BadRequest | None = None
    for count in sorted(set(counts), reverse=True):
        try:
            with part_of_request("job"):
                question(job_of(count), to_plan=True)
        except IllegalLayout as error:
            failed = failed or error
        else:
            return
    if failed is not None:
        raise failed


def _curve(
    device: str, placement: str, job_of: Sized, counts: list[int], sizes: list[Size]
) -> Curve:
    """Points by node count: each size, or the best of the smaller ones where that is faster."""
    job = job_of(counts[0])
    per_node = job.cluster.devices_per_node or cluster_from_request(job.cluster).devices_per_node
    batch = job.training.global_batch_size or 1
    sequence = job.training.sequence_length
    best: Size | None = None
    last: tuple[int, float] = (0, 0.0)
    points: list[Point] = []
    faster = useful(sizes)
    counts_that_pay = {size.nodes for size in faster}
    for size in sizes:
        is_useful = size.nodes in counts_that_pay
        gain = None
        if is_useful:
            best = size
            assert size.seconds is not None
            rate = batch / size.seconds
            gain = (rate - last[1]) / (size.nodes - last[0])
            last = (size.nodes, rate)
        seconds = best.seconds if best else None
        points.append(
            Point(
                nodes=size.nodes,
                devices=size.nodes * per_node,
                feasible=best is not None,
                useful=is_useful,
                uses_nodes=best.nodes if best else None,
                iteration_seconds=seconds,
                lower_bound_seconds=best.lower_bound if best else None,
                samples_per_second=batch / seconds if seconds else None,
                tokens_per_second=batch * sequence / seconds if seconds and sequence else None,
                gain_per_node=gain,
                **(best.facts or {} if best else {}),
            )
        )
    return Curve(
        device=device,
        placement=placement,
        points=points,
        smallest_feasible=faster[0].nodes if faster else None,
        knee=_knee(faster),
        useful_sizes=[size.nodes for size in faster],
        goodput=_goodput(faster, per_node, batch),
    )


def _knee(sizes: list[Size]) -> int | None:
    """The point farthest above the chord from first to last (Satopaa et al. 2011, Kneedle)."""
    if not sizes:
        return None
    nodes = np.array([size.nodes for size in sizes], dtype=np.float64)
    rates = np.array([1.0 / (size.seconds or math.inf) for size in sizes])
    if len(sizes) < 3:
        return sizes[-1].nodes
    across = (nodes - nodes[0]) / (nodes[-1] - nodes[0])
    up = (rates - rates[0]) / (rates[-1] - rates[0])
    return (
        sizes[int(np.argmax(up - across))].nodes if (up - across).max() > 0 else (sizes[-1].nodes)
    )


def _goodput(sizes: list[Size], per_node: int, batch: int) -> GoodputParameters | None:
    if len(sizes) < _FEWEST_FOR_FIT:
        return None
    nodes = np.array([size.nodes for size in sizes], dtype=np.float64)
    seconds = np.array([size.seconds for size in sizes], dtype=np.float64)
    fitted = fit(nodes, nodes * per_node, seconds, float(batch))
    names = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")
    values = dict(zip(names, fitted.parameters, strict=True))
    return GoodputParameters(**values, relative_error=fitted.relative_error)
