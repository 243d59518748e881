"""What is asked of a transition, and its answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from solver.plan import Answer
from solver.request import Count, Job, Seconds
from solver.strict import NodeName, Strict

Rate = Annotated[float, Field(ge=1, le=1e18, allow_inf_nan=False)]

RESTART_SECONDS = 75.0
"""Detecting, rendezvous and starting again: between the 54 and 95 s that Parcae measured for taking
nodes out of a run (NSDI 2024, its liveput/cost.py)."""


class PlanOnNodes(Strict):
    """A plan's layout and stages, and the nodes that hold its ranks."""

    tensor_parallel: Count = Field(description="Devices that share each layer.")
    pipeline_parallel: Count = Field(description="Devices of a pipeline.")
    data_parallel: Count = Field(description="Replicas of the pipeline.")
    context_parallel: Count = Field(default=1, description="Devices that share each sequence.")
    virtual_stages: Count = Field(default=1, description="Model chunks per pipeline device.")
    zero_stage: Annotated[int, Field(ge=0, le=3)] = Field(
        default=1, description="From 1 on the optimizer's state is sharded over replicas."
    )
    stages: list[Count] | None = Field(
        default=None,
        description="Blocks on each stage in model order; as even as can be if absent.",
    )
    nodes: list[NodeName] = Field(
        min_length=1, max_length=4096, description="In rank order; after a transition, any order."
    )

    @property
    def devices(self) -> int:
        """Devices of the layout."""
        return (
            self.tensor_parallel
            * self.context_parallel
            * self.data_parallel
            * self.pipeline_parallel
        )


class TransitionRequest(Strict):
    """From one plan on some nodes to another on others."""

    job: Job = Field(description="Model, training run, and the kind of node.")
    before: PlanOnNodes = Field(description="What runs, or ran until some nodes failed.")
    after: PlanOnNodes = Field(description="What is to run; its nodes are put in the best order.")
    lost: list[NodeName] = Field(
        default_factory=list,
        description="Nodes of `before` whose state is gone, though they may be named in `after`.",
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


class Move(Answer):
    """State that goes from one node to another."""

    source: str = Field(description="The node that holds it.")
    target: str = Field(description="The node that needs it.")
    weight_bytes: float = Field(description="Weights in the compute precision.")
    optimizer_bytes: float = Field(description="Master weights and moments.")


class TransitionAnswer(Answer):
    """Who takes which ranks, what moves, and how long that takes."""

    status: str = Field(default="succeeded", description="Always `succeeded`.")
    nodes: list[str] = Field(description="The nodes of the new plan in rank order.")
    moves: list[Move] = Field(description="Between nodes; what moves inside a node is not listed.")
    moved_bytes: float = Field(description="Sum of the moves.")
    kept_bytes: float = Field(description="What nodes need and have already.")
    lost_bytes: float = Field(description="Needed state of which no copy survives.")
    rolls_back: bool = Field(
        description="Whether the run goes back to its last checkpoint, as state was lost."
    )
    checkpoint_bytes: float = Field(description="Read from the checkpoint.")
    busiest_node_bytes: float = Field(description="Sent or received by the node that does most.")
    restart_seconds: float = Field(description="The part that no link explains.")
    move_seconds: float = Field(description="The busiest node's network for its moves.")
    checkpoint_seconds: float | None = Field(
        description="Reading the checkpoint; null without a storage rate where one is read."
    )
    seconds: float = Field(description="All together.")
    state_bytes: float = Field(description="One copy of the whole state: a checkpoint's size.")
    state_bytes_per_parameter: float = Field(description="The same per parameter.")
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the transition should know."
    )
