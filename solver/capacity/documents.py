"""What is asked for a capacity curve, and its answer."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from solver.plan import Answer, LayoutAnswer
from solver.request import Count, Job
from solver.strict import Name, Strict

MOST_SIZES = 4096


class NodeRange(Strict):
    """Node counts from ``minimum`` to ``maximum``, every ``step``-th."""

    minimum: Count = Field(default=1, description="The smallest allocation.")
    maximum: Count = Field(description="The largest allocation.")
    step: Count = Field(default=1, description="Between one allocation and the next.")

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError("minimum is above maximum")
        if len(self.counts) > MOST_SIZES:
            raise ValueError(f"these are more than {MOST_SIZES} allocations")
        return self

    @property
    def counts(self) -> range:
        """The node counts."""
        return range(self.minimum, self.maximum + 1, self.step)


class DeviceType(Strict):
    """Nodes of one kind that the job may be given."""

    device: Name = Field(description="An entry of the device catalogue.")
    devices_per_node: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Devices of one node; as in the job's cluster if absent."
    )
    inter_node_bytes_per_second: (
        Annotated[float, Field(ge=1, le=1e15, allow_inf_nan=False)] | None
    ) = Field(default=None, description="Per device, one direction; the device's usual if absent.")


class Spread(Strict):
    """How an allocation lies on the fabric, where that changes what the network gives."""

    nodes_per_leaf: Count = Field(description="Nodes of one leaf switch.")
    oversubscription: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = Field(
        description="A leaf's node-side rate over its uplinks' rate."
    )


class CapacityRequest(Strict):
    """A job, and the allocations that it might be given."""

    job: Job = Field(
        description="The job; its cluster's node count is replaced by those of `nodes`."
    )
    nodes: NodeRange = Field(description="The node counts.")
    devices: list[DeviceType] = Field(
        default_factory=list,
        max_length=16,
        description="Kinds of node, each with a curve of its own; the job's own if empty.",
    )
    spread: Spread | None = Field(
        default=None,
        description="The fabric: two curves per device then, on one leaf and over several.",
    )
    relative_gap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=0.01,
        description="Proved distance to the optimum at which a size's search may stop; a size that "
        "is faster by no more than this counts as no faster.",
    )
    seconds_per_size: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Then the best plan so far of a size is taken, with its proved bound; if "
        "absent each size has an equal share of the time that is left.",
    )
    time_limit_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=300.0, description="Then sizes that are not planned yet are left open."
    )


class Point(Answer):
    """One node count. ``uses_nodes`` says how many of them the best plan really uses."""

    nodes: int = Field(description="Nodes given.")
    devices: int = Field(description="Devices given.")
    feasible: bool = Field(description="Whether some plan fits on these nodes or fewer of them.")
    useful: bool = Field(description="Whether this size is faster than every smaller one.")
    uses_nodes: int | None = Field(default=None, description="Nodes that the best plan uses.")
    iteration_seconds: float | None = Field(default=None, description="Of the best plan.")
    lower_bound_seconds: float | None = Field(
        default=None, description="Proved for plans that use exactly `uses_nodes` nodes."
    )
    samples_per_second: float | None = Field(default=None, description="Sequences per second.")
    tokens_per_second: float | None = Field(default=None, description="Null for a profile.")
    gain_per_node: float | None = Field(
        default=None,
        description="Samples per second that each node adds since the last useful size.",
    )
    memory_headroom_bytes: float | None = Field(
        default=None, description="What the fullest device has left."
    )
    layout: LayoutAnswer | None = Field(default=None, description="Of the best plan.")
    stages: list[int] = Field(default_factory=list, description="Blocks on each stage.")
    plan_id: str | None = Field(
        default=None, description="Of the request that gives the whole plan, on `uses_nodes` nodes."
    )


class GoodputParameters(Answer):
    """The throughput model of Pollux and its descendants, fitted to the useful points.

    With b sequences per device and r devices, in seconds: T_compute = alpha_c + beta_c x b;
    T_network = alpha_n + beta_n x max(r - 2, 0) over several nodes and alpha_r + beta_r x
    max(r - 2, 0) on one; T_step = (T_compute^gamma + T_network^gamma)^(1/gamma).
    """

    alpha_c: float = Field(description="Seconds of computing whatever the batch.")
    beta_c: float = Field(description="Seconds per sequence and device.")
    alpha_n: float = Field(description="Seconds of the network over several nodes.")
    beta_n: float = Field(description="The same per device beyond two.")
    alpha_r: float = Field(description="Seconds of the links inside one node.")
    beta_r: float = Field(description="The same per device beyond two.")
    gamma: float = Field(description="How little computing and network overlap: 1 to 10.")
    relative_error: float = Field(description="Root mean square over the points, relative.")


class Curve(Answer):
    """What the job reaches on one kind of node, for every count."""

    device: str = Field(description="Of its nodes.")
    placement: str = Field(description="`any`, or with a fabric `one-leaf` or `several-leafs`.")
    points: list[Point] = Field(description="By node count.")
    smallest_feasible: int | None = Field(
        default=None, description="Nodes of the smallest allocation on which something fits."
    )
    knee: int | None = Field(
        default=None,
        description="Useful size after which more nodes pay least (Kneedle on the useful points).",
    )
    useful_sizes: list[int] = Field(
        default_factory=list, description="Node counts that are faster than every smaller one."
    )
    goodput: GoodputParameters | None = Field(
        default=None, description="Null with fewer than four useful sizes."
    )


class CapacityAnswer(Answer):
    """The curves of a job."""

    id: str = Field(description="Content address of the request under this solver version.")
    status: str = Field(description="`succeeded`, or `infeasible` if nothing fits anywhere.")
    global_batch_size: int | None = Field(default=None, description="Sequences of one iteration.")
    curves: list[Curve] = Field(default_factory=list, description="By device, then placement.")
    seconds: float = Field(default=0.0, description="Wall time of the computation.")
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the curves should know."
    )
