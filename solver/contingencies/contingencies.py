"""The door: a running plan in, what to do for every failure out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from math import comb

from solver.capacity.planners import Limits, Planners
from solver.capacity.sizes import Size, at_size
from solver.cluster.cluster import cluster_from_request
from solver.contingencies.cells import Cells, cells_of
from solver.contingencies.courses import Courses
from solver.contingencies.documents import (
    ContingencyAnswer,
    ContingencyRequest,
    FailureClass,
    PlannedNode,
    RunningNode,
    Template,
)
from solver.contingencies.failures import Failure, failures
from solver.contingencies.running import decided, running_plan
from solver.errors import BadRequest
from solver.identity import content_id
from solver.progress import Progress
from solver.question import only_layout, question
from solver.request import PlanRequest
from solver.strict import named_once

_FREED = (
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_tensor_parallel",
    "sequence_parallel",
    "sharding_group",
    "interleaving_group",
)
"""What a plan on fewer nodes may choose anew; the rest stays as it runs."""

MOST_NODE_SETS = 4000


def contingencies(
    request: ContingencyRequest,
    *,
    progress: Callable[[Progress], None] | None = None,
    processes: int | None = None,
) -> ContingencyAnswer:
    """What to do for every failure of up to ``most_failed`` nodes, and for every node count.

    Args:
        request: The running plan, its nodes, and what failures cost.
        progress: Told of every node count and class of failures that is done.
        processes: Node counts planned at the same time; by default as many as processors.

    Raises:
        BadRequest: The layout is not decided, nodes or stages are not the plan's, or there are too
            many classes of failures.
    """
    started = time.monotonic()
    identity = content_id("contingency", request)
    request, cells, nodes, found = _situation(request)
    running = running_plan(request)
    if running is None:
        return ContingencyAnswer(
            id=identity,
            status="infeasible",
            seconds=time.monotonic() - started,
            notes=["The running plan does not fit its devices under this cost model."],
        )
    total, done = cells.count - 1 + len(found), 0

    def report() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(Progress(None, 0.0, done, total))

    sizes = _sizes(request, cells.count, started + request.time_limit_seconds, report, processes)
    courses = Courses(request, running, cells, sizes)
    classes = []
    for failure in found:
        classes.append(courses.of(failure))
        report()
    if request.each_node_set:
        classes = _with_members(request, cells, courses, classes)
    samples = float(request.job.training.global_batch_size or 1)
    return ContingencyAnswer(
        id=identity,
        status="succeeded",
        iteration_seconds=running.seconds,
        samples_per_second=samples / running.seconds,
        nodes=nodes,
        spares=request.spares,
        plans=courses.plans,
        classes=classes,
        templates=[
            Template(nodes=count, plan=courses.template(count))
            for count in range(cells.count - 1, 0, -1)
        ],
        smallest_feasible=min((size.nodes for size in sizes if size.seconds), default=None),
        restart_seconds=request.restart_seconds,
        checkpoint_seconds=courses.checkpoint_seconds,
        seconds=time.monotonic() - started,
        notes=_notes(request, sizes),
    )


def _with_members(
    request: ContingencyRequest, cells: Cells, courses: Courses, classes: Sequence[FailureClass]
) -> list[FailureClass]:
    """The classes, each of up to ``most_failed`` nodes with all its node sets."""
    sets = {
        key: members
        for size in range(1, min(request.most_failed, cells.count - 1) + 1)
        for key, members in cells.members(size).items()
    }
    return [
        found.model_copy(
            update={"members": courses.members(found, sets.get(cells.key(found.failed), ()))}
        )
        for found in classes
    ]


def check(request: ContingencyRequest) -> None:
    """Refuse a request for every reason that can be told without solving.

    Raises:
        BadRequest: As ``contingencies`` would.
    """
    _situation(request)


def _situation(
    request: ContingencyRequest,
) -> tuple[ContingencyRequest, Cells, list[PlannedNode], list[Failure]]:
    """The request with its layout decided, the places and names of its nodes, and what may fail."""
    job = decided(request.job)
    places = [(f"nodes[{i}].name", node.name) for i, node in enumerate(request.nodes)]
    named_once([*places, *((f"spares[{i}]", name) for i, name in enumerate(request.spares))])
    per_node = cluster_from_request(job.cluster).devices_per_node
    layout = only_layout(question(job))
    cells = cells_of(layout, per_node)
    named = request.nodes or [RunningNode(name=f"node-{i}") for i in range(cells.count)]
    if len(named) != cells.count:
        raise BadRequest(
            f"{layout.devices} devices are {cells.count} nodes of {per_node}; {len(named)} are "
            "named.",
            field="nodes",
            hint="Name the nodes that hold the plan's ranks, in their order.",
        )
    found = failures(cells, [node.leaf for node in named], request.most_failed)
    if (
        request.each_node_set
        and sum(comb(cells.count, size) for size in range(1, request.most_failed + 1))
        > MOST_NODE_SETS
    ):
        raise BadRequest(
            f"These are more than {MOST_NODE_SETS} node sets to work out one by one.",
            field="each_node_set",
            hint="Ask for fewer failed nodes, or for one set of each class.",
        )
    nodes = [
        PlannedNode(name=node.name, leaf=node.leaf, stages=list(stages), replicas=list(replicas))
        for node, stages, replicas in zip(named, cells.stages, cells.replicas, strict=True)
    ]
    return request.model_copy(update={"job": job}), cells, nodes, found


def _sizes(
    request: ContingencyRequest,
    nodes: int,
    deadline: float,
    report: Callable[[], None],
    processes: int | None,
) -> list[Size]:
    """The best plan of every smaller node count, where it is faster than all still smaller."""
    limits = Limits(request.relative_gap, request.seconds_per_size, deadline)
    job = freed(request.job)
    with Planners(nodes - 1, processes) as planners:
        return planners.plan(partial(at_size, job), range(1, nodes), limits, report)


def freed(job: PlanRequest) -> PlanRequest:
    """The job with those parts of its layout open that a plan on fewer nodes may choose anew."""
    layout = job.layout.model_copy(update=dict.fromkeys(_FREED))
    return job.model_copy(update={"layout": layout})


def _notes(request: ContingencyRequest, sizes: Sequence[Size]) -> list[str]:
    notes = []
    if not request.each_node_set:
        notes.append(
            "What it costs to go somewhere is that of a class's example: its members differ in "
            "which shards of the optimizer meet, by little. each_node_set works it out for all."
        )
    late = [str(size.nodes) for size in sizes if not size.finished]
    if late:
        notes.append(
            f"Time ran out before the search was complete at {', '.join(late[:12])} nodes; a "
            "larger seconds_per_size or time_limit_seconds completes them."
        )
    if request.storage_bytes_per_second is None:
        notes.append("No storage rate was given; reading checkpoints is not in the seconds.")
    return notes
