"""The answers: an evaluation of a given plan, and the best plan with its proof.

Seconds and bytes throughout; field names are fixed by the project's contract.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Base of every answer type."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Status(StrEnum):
    """Where a plan stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    CANCELLED = "cancelled"


class LayoutAnswer(Answer):
    """The parallel layout, every field filled."""

    tensor_parallel: int
    pipeline_parallel: int
    context_parallel: int
    expert_parallel: int
    data_parallel: int
    virtual_stages: int
    micro_batch_size: int
    sequence_parallel: bool
    zero_stage: int
    schedule: str
    expert_tensor_parallel: int = 1
    interleaving_group: int | None = None


class StageMemory(Answer):
    """Bytes of one stage at its peak; the fields add up to the stage's ``peak_memory_bytes``."""

    weights: float
    gradients: float
    optimizer: float
    activations: float = Field(description="Kept for backward, all in-flight micro-batches.")
    recompute: float = Field(description="Tensors that one block rebuilds in its backward.")
    working: float = Field(default=0.0, description="Temporaries of the block at work.")
    reserved: float = Field(default=0.0, description="Context, communicators and allocator slack.")


class BlockRecompute(Answer):
    """So many blocks of a kind on the stage recompute these tensors."""

    block: str
    count: int
    recomputed: list[str]
    whole: bool = Field(
        default=False,
        description="The framework re-runs the whole block, outputs that nobody needs included.",
    )
    group: int = Field(
        default=1, description="Blocks recomputed together, keeping only the first one's input."
    )


class Tensor(Answer):
    """What one op of a block makes."""

    name: str
    bytes: float
    forward_seconds: float = Field(description="Making it again takes so long.")
    needed: bool = Field(description="Whether some backward reads it.")


class BlockKind(Answer):
    """A kind of block: what it could keep. Its input is always kept."""

    count: int
    input_bytes: float
    tensors: list[Tensor] = Field(description="In forward order; one micro-batch on one device.")


class Stage(Answer):
    """One pipeline stage: what it holds, how long it takes, what it needs."""

    index: int
    chunk: int | None = None
    blocks: list[tuple[str, int]]
    forward_seconds: float
    backward_seconds: float = Field(description="One micro-batch, recompute included.")
    recompute_seconds: float
    gather_seconds: float = Field(
        default=0.0, description="Gathering its weights before the first pass, where not hidden."
    )
    reduction_seconds: float = Field(
        default=0.0, description="Reducing its gradients after the last pass, where not hidden."
    )
    step_seconds: float = Field(default=0.0, description="Updating its weights.")
    in_flight: int
    kept_bytes: float = Field(
        default=0.0, description="Kept for the backward of one micro-batch, inputs included."
    )
    peak_memory_bytes: float = Field(
        description="What the stage's device needs at most, the reserve included; plans are made "
        "with this."
    )
    allocated_peak_bytes: float = Field(
        default=0.0,
        description="What the allocator of the stage's device hands out at most: no context, "
        "communicators or slack, and every tensor freed when it is.",
    )
    allocated_steady_bytes: float = Field(
        default=0.0, description="What it still holds between iterations."
    )
    allocated_peak_at: str | None = Field(
        default=None, description="Where that peak falls: forward, backward or optimizer step."
    )
    memory: StageMemory
    recompute: list[BlockRecompute]


class Breakdown(Answer):
    """Where the iteration's time goes, on average over the stages; the lines add up to it."""

    compute: float
    recompute: float
    bubble: float
    tensor_parallel: float
    pipeline_parallel: float
    data_parallel: float
    optimizer: float
    context_parallel: float = 0.0
    expert_parallel: float = 0.0
    other: float = 0.0


class Evaluation(Answer):
    """Time and memory of a given layout, partition and recompute policy."""

    iteration_seconds: float
    tokens_per_second_per_device: float | None
    model_flops_utilization: float | None
    fits: bool
    peak_memory_bytes: float
    memory_limit_bytes: float
    layout: LayoutAnswer
    micro_batches: int
    stages: list[Stage]
    breakdown: Breakdown
    pipeline_send_seconds: float = Field(
        default=0.0, description="One boundary tensor between neighbouring stages."
    )
    block_kinds: dict[str, BlockKind] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


class Baseline(Answer):
    """What another method would get on the same costs."""

    iteration_seconds: float | None
    fits: bool
    peak_memory_bytes: float | None = None
    speed_up: float | None = Field(
        default=None, description="The baseline's iteration time over this plan's."
    )
    note: str = ""


class SolverReport(Answer):
    """How the answer was found."""

    seconds: float
    engine: str
    version: str
    layouts_considered: int
    layouts_pruned: int
    layouts_infeasible: int = 0
    layouts_unfinished: int = 0
    rows: int = Field(default=0, description="Critical-path rows in the final program.")
    rounds: int = Field(default=0, description="Solve-and-simulate rounds for the winner.")


class Shortfall(Answer):
    """A stage that cannot fit, even under full recompute."""

    stage: int
    missing_bytes: float
    needed_bytes: float
    memory_limit_bytes: float
    layout: LayoutAnswer


class Export(Answer):
    """A plan in a framework's own words, and what those words cannot say."""

    framework: str
    arguments: list[str]
    exact: bool
    notes: list[str]


class Plan(Answer):
    """The best plan, or why there is none."""

    id: str
    status: Status
    iteration_seconds: float | None = None
    tokens_per_second_per_device: float | None = None
    model_flops_utilization: float | None = None
    fits: bool | None = None
    peak_memory_bytes: float | None = None
    memory_limit_bytes: float | None = None
    layout: LayoutAnswer | None = None
    micro_batches: int | None = None
    stages: list[Stage] = Field(default_factory=list)
    breakdown: Breakdown | None = None
    pipeline_send_seconds: float = 0.0
    block_kinds: dict[str, BlockKind] = Field(default_factory=dict)
    lower_bound_seconds: float | None = None
    gap: float | None = None
    baselines: dict[str, Baseline] = Field(default_factory=dict)
    exports: list[Export] = Field(default_factory=list)
    shortfall: Shortfall | None = None
    solver: SolverReport | None = None
    notes: list[str] = Field(default_factory=list)
    error: str | None = None
