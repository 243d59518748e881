"""What is asked for contingencies, the answer, and what is read of it for a failed node set."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from solver.plan import Answer, LayoutAnswer
from solver.request import Count, Job, Seconds
from solver.strict import NodeName, Strict
from solver.transitions.documents import RESTART_SECONDS, Rate

MOST_FAILED = 4
"""Failed nodes up to which every set can be asked for one by one."""


class ActionKind(StrEnum):
    """What a run can do when nodes fail."""

    KEEP_WITH_SPARE = "keep_with_spare"
    DROP_REPLICA = "drop_replica"
    REROUTE = "reroute"
    REPARTITION = "repartition"
    SHRINK = "shrink"


class RunningNode(Strict):
    """A node that the plan runs on."""

    name: NodeName = Field(description="As the scheduler calls it.")
    leaf: Annotated[str, Field(min_length=1, max_length=253)] | None = Field(
        default=None, description="The switch it is plugged into; each leaf may fail as a whole."
    )


class ContingencyRequest(Strict):
    """A running plan, its nodes, and what failures cost."""

    job: Job = Field(description="The plan's request with its whole layout filled.")
    nodes: list[RunningNode] = Field(
        default_factory=list,
        max_length=4096,
        description="Its nodes in rank order; `node-0`, `node-1` and so on if empty.",
    )
    stages: list[Count] | None = Field(
        default=None,
        description="Blocks on each stage in model order, as the plan's; planned if absent.",
    )
    spares: list[NodeName] = Field(
        default_factory=list, max_length=256, description="Healthy nodes that stand by."
    )
    most_failed: Annotated[int, Field(ge=1, le=MOST_FAILED)] = Field(
        default=2, description="Every set of so many failed nodes or fewer is covered by itself."
    )
    each_node_set: bool = Field(
        default=False,
        description="Whether going there is worked out for every node set of up to `most_failed` "
        "by itself, not for one of each class; takes longer.",
    )
    horizon_seconds: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = Field(
        default=3600.0,
        description="For how long a run goes on with fewer nodes; actions are ranked by the work "
        "that is done by then.",
    )
    restart_seconds: Seconds = Field(
        default=RESTART_SECONDS, description="Detecting, rendezvous and starting again."
    )
    storage_bytes_per_second: Rate | None = Field(
        default=None, description="At which a checkpoint is read, all readers together."
    )
    local_checkpoints: bool = Field(
        default=False, description="Whether every node keeps the last checkpoint of its own state."
    )
    checkpoint_interval_seconds: Seconds = Field(
        default=0.0,
        description="Between two checkpoints; half of it is done again where state is lost.",
    )
    relative_gap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=1e-3, description="Proved distance to the optimum at which a search may stop."
    )
    seconds_per_size: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = Field(
        default=5.0, description="Then the best plan so far of a node count is taken."
    )
    time_limit_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=300.0, description="Then node counts that are not planned yet are left open."
    )


class Reduced(Answer):
    """How a run goes on: one plan that several failures share."""

    action: ActionKind = Field(description="What is done.")
    iteration_seconds: float = Field(description="Of an iteration with the whole batch.")
    lower_bound_seconds: float = Field(
        description="Proved for the action's restriction: its layout, its cuts, its routes."
    )
    samples_per_second: float = Field(description="Sequences per second.")
    throughput: float = Field(description="Share of the running plan's.")
    uses_nodes: int = Field(description="Nodes that work.")
    layout: LayoutAnswer | None = Field(
        default=None, description="Null where pipelines of the running layout lend each other work."
    )
    stages: list[int] = Field(description="Blocks on each stage, in model order.")
    micro_batches: list[int] = Field(
        description="Of each replica's pipeline; they differ by one where they do not divide."
    )
    memory_headroom_bytes: float = Field(description="What the fullest device has left.")
    plan_id: str | None = Field(
        default=None, description="Of the request that gives the same plan, where there is one."
    )
    replicas_lost: int | None = Field(default=None, description="Of `drop_replica`: how many.")
    cells_lost: list[int] | None = Field(
        default=None, description="Of `reroute`: replicas lost of each stage."
    )


class Course(Answer):
    """One action for a class of failures: its plan, its nodes, what going there costs."""

    plan: int = Field(description="Place in `plans`.")
    order: list[int] = Field(
        description="Positions of the example's nodes in the new plan's rank order, spares "
        "counted on after the nodes."
    )
    transition_seconds: float = Field(description="Restart, moves and checkpoint.")
    moved_bytes: float = Field(description="Between nodes.")
    lost_bytes: float = Field(description="State of which no copy survives.")
    rolls_back: bool = Field(description="Whether the run goes back to its last checkpoint.")
    checkpoint_bytes: float = Field(description="Read from the checkpoint.")
    lost_work_seconds: float = Field(description="Work done again after going back.")
    way_back_seconds: float = Field(
        description="From the action back to the running plan once nodes are replaced."
    )
    break_even_seconds: float = Field(
        description="An outage as long as this is bridged better by the action than by waiting."
    )


class NodeSet(Answer):
    """What it costs a member of a class to go where its courses lead, in their order."""

    failed: list[int] = Field(description="Positions.")
    transition_seconds: list[float] = Field(description="Of each course, as for the example.")
    moved_bytes: list[float] = Field(description="Of each course, between nodes.")


class FailureClass(Answer):
    """Node sets that are alike: replicas may change places."""

    title: str = Field(description="Which failure, in words.")
    failed: list[int] = Field(description="Positions of an example.")
    node_sets: int = Field(description="Sets that are alike.")
    courses: list[Course] = Field(description="Most work done within the horizon first.")
    members: list[NodeSet] = Field(
        default_factory=list,
        description="Its other node sets, where `each_node_set` asks for them.",
    )
    waiting_seconds: float = Field(
        description="From the replacement of the nodes until the running plan goes on."
    )


class Template(Answer):
    """The best plan of a node count."""

    nodes: int = Field(description="Nodes that are left.")
    plan: int | None = Field(default=None, description="Place in `plans`; null: nothing fits.")


class PlannedNode(Answer):
    """Where a node stands in the running plan."""

    name: str = Field(description="As the scheduler calls it.")
    leaf: str | None = Field(default=None, description="The switch it is plugged into.")
    stages: list[int] = Field(description="Pipeline ranks on it.")
    replicas: list[int] = Field(description="Data-parallel ranks on it.")


class ContingencyAnswer(Answer):
    """What to do for every failure of up to so many nodes, and for every node count."""

    id: str = Field(description="Content address of the request under this solver version.")
    status: str = Field(description="`succeeded`, or `infeasible` if the running plan cannot fit.")
    iteration_seconds: float | None = Field(default=None, description="Of the running plan.")
    samples_per_second: float | None = Field(default=None, description="The same as a rate.")
    nodes: list[PlannedNode] = Field(default_factory=list, description="In rank order.")
    spares: list[str] = Field(default_factory=list, description="As asked.")
    plans: list[Reduced] = Field(default_factory=list, description="How a run can go on.")
    classes: list[FailureClass] = Field(
        default_factory=list, description="By number of failed nodes; then whole parts."
    )
    templates: list[Template] = Field(
        default_factory=list, description="By node count, one less than the running plan's first."
    )
    smallest_feasible: int | None = Field(
        default=None, description="Nodes of the smallest count on which anything fits."
    )
    restart_seconds: float = Field(default=0.0, description="As asked.")
    checkpoint_seconds: float | None = Field(
        default=None, description="Reading the whole checkpoint; null without a storage rate."
    )
    seconds: float = Field(default=0.0, description="Wall time of the computation.")
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the answer should know."
    )


class Action(Answer):
    """What can be done about the very nodes that failed."""

    plan: Reduced = Field(description="How the run goes on.")
    nodes: list[str] = Field(description="In the new plan's rank order; empty: any that are left.")
    transition_seconds: float = Field(description="Restart, moves and checkpoint.")
    moved_bytes: float | None = Field(default=None, description="Between nodes; null: not known.")
    rolls_back: bool = Field(description="Whether the run goes back to its last checkpoint.")
    lost_work_seconds: float | None = Field(
        default=None, description="Work done again after going back; null: not known."
    )
    break_even_seconds: float | None = Field(
        default=None, description="An outage as long as this is bridged better by this than by "
        "waiting; null: not known."
    )  # fmt: skip


class Covered(Answer):
    """What is read for a failed node set."""

    failed: list[str] = Field(description="As asked.")
    title: str = Field(description="Which failure it is.")
    by_itself: bool = Field(
        description="Whether its class was worked out; else the answer rests on how many nodes and "
        "replicas are left, and the transition on reading a whole checkpoint."
    )
    actions: list[Action] = Field(description="Best first.")
