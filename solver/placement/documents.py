"""What is asked of a placement, and its answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from solver.plan import Answer
from solver.request import Job
from solver.strict import Label, NodeName, Strict

SwitchName = Annotated[str, Field(min_length=1, max_length=253)]


class FreeNode(Strict):
    """A node that the job may be given, and where it is plugged in."""

    name: NodeName = Field(description="As the scheduler calls it, without spaces and commas.")
    leaf: SwitchName = Field(default="leaf", description="The switch it is plugged into.")
    spine: SwitchName | None = Field(default=None, description="The switch above that.")
    domain: SwitchName | None = Field(
        default=None, description="The NVLink domain that it shares with other nodes."
    )


class PlacementRequest(Strict):
    """A plan by its request with the layout filled, and the nodes that are free."""

    job: Job = Field(
        description="The plan's request; its layout gives tensor, pipeline and data parallel."
    )
    nodes: list[FreeNode] = Field(
        default_factory=list,
        max_length=16_384,
        description="Free nodes, more than needed are welcome; if empty all that are available in "
        "the job's cluster, given by its topology or by the name of a stored one.",
    )
    candidates: list[list[NodeName]] = Field(
        default_factory=list,
        max_length=4096,
        description="Sets of these nodes that the scheduler has in mind; each is scored.",
    )
    time_limit_seconds: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = Field(
        default=10.0, description="Then the best placement so far is answered, with its gap."
    )
    leaf_label: Label = Field(
        default="cloud.google.com/gce-topology-subblock",
        description="The Kubernetes node label of leafs, for Kueue's annotations.",
    )


class PlacedNode(Answer):
    """One node of the placement, in rank order."""

    name: str = Field(description="As the scheduler calls it.")
    leaf: str = Field(description="The switch it is plugged into.")
    first_rank: int = Field(description="Its devices hold this and the following ranks.")
    stages: list[int] = Field(description="Pipeline ranks on it.")
    replicas: list[int] = Field(description="Data-parallel ranks on it.")


class Spreads(Answer):
    """Over how many leafs groups lie."""

    leafs: int = Field(description="Leafs that the job touches.")
    data_parallel_most: int = Field(description="Leafs of the data-parallel group with most.")
    data_parallel_mean: float = Field(description="On average over the pipeline's stages.")
    pipeline_crossings: int = Field(
        description="Pairs of neighbouring stages of a replica that are on two leafs."
    )


class Score(Answer):
    """What a set of nodes is worth."""

    fits: bool = Field(description="Whether the plan can be put on it.")
    crossing_bytes: float | None = Field(
        default=None, description="Bytes that cross leafs in an iteration."
    )
    lower_bound_bytes: float | None = Field(
        default=None, description="Proved: no placement on the set crosses less."
    )
    leafs: int = Field(description="Leafs that the set touches.")


class SchedulerWords(Answer):
    """The placement in the words of schedulers."""

    slurm: list[str] = Field(description="Options of sbatch and srun.")
    kueue: dict[str, str] = Field(description="Annotations of a pod template (TAS).")
    volcano: dict[str, object] = Field(
        description="`networkTopology` of a job and `partitionPolicy` of its task."
    )
    rank_file: str = Field(description="A rank file of Open MPI, one line a rank.")
    hosts: str = Field(
        description="SLURM_HOSTFILE for `--distribution=arbitrary`, one line a rank."
    )


class PlacementAnswer(Answer):
    """Nodes in rank order, with the proof of how little crosses leafs."""

    status: str = Field(description="`succeeded`, or `infeasible` where the nodes do not suffice.")
    nodes: list[PlacedNode] = Field(default_factory=list, description="In rank order.")
    crossing_bytes: float | None = Field(
        default=None, description="Bytes that cross leafs in an iteration."
    )
    lower_bound_bytes: float | None = Field(
        default=None, description="Proved: no placement on these nodes crosses less."
    )
    gap: float | None = Field(default=None, description="1 - lower bound / crossing bytes.")
    spreads: Spreads | None = None
    unit_nodes: int = Field(
        default=1, description="Nodes that are kept together in an NVLink domain or on a leaf."
    )
    words: SchedulerWords | None = None
    scores: list[Score] = Field(default_factory=list, description="Of the candidates, in order.")
    seconds: float = Field(default=0.0, description="Wall time.")
    error: str | None = Field(default=None, description="Why there is no placement, in words.")
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the placement should know."
    )
