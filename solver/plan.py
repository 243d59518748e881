"""The answers: an evaluation of a given plan, and the best plan with its proof.

Seconds and bytes throughout; field names are fixed by the project's contract.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue


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

    tensor_parallel: int = Field(description="Devices that share each layer.")
    pipeline_parallel: int = Field(description="Devices of a pipeline.")
    context_parallel: int = Field(description="Devices that share each sequence in attention.")
    expert_parallel: int = Field(description="Devices over which the experts are spread.")
    data_parallel: int = Field(description="Replicas of the pipeline.")
    virtual_stages: int = Field(description="Model chunks per pipeline device.")
    micro_batch_size: int = Field(description="Sequences of one micro-batch.")
    sequence_parallel: bool = Field(description="Whether norms and residuals are split too.")
    zero_stage: int = Field(
        description="What is sharded over replicas: 1 optimizer, 2 also gradients, 3 also weights."
    )
    schedule: str = Field(description="Order of forward and backward passes.")
    expert_tensor_parallel: int = Field(default=1, description="Devices that share each expert.")
    interleaving_group: int | None = Field(
        default=None,
        description="Micro-batches through a chunk in a row; null without virtual stages.",
    )
    sharding_group: int = Field(
        default=1, description="Replicas (data times context parallel) that share the states."
    )
    rank_order: str = Field(
        default="tp-cp-ep-dp-pp", description="Which ranks are neighbours, fastest first."
    )
    context_method: str = Field(
        default="ring", description="How devices that share a sequence exchange it in attention."
    )
    stage_pools: list[tuple[int, int]] | None = Field(
        default=None,
        description="Pool, counted from 0, and number of stages, in the order of the pipeline; "
        "null where all devices are alike.",
    )


class StageMemory(Answer):
    """Bytes of one stage at its peak; the fields add up to the stage's ``peak_memory_bytes``."""

    weights: float = Field(description="Weights in the compute precision.")
    gradients: float = Field(description="Gradient buffers.")
    optimizer: float = Field(
        description="Master weights and moments, and what the step "
        "works on where that is the fullest moment."
    )
    activations: float = Field(description="Kept for backward, all in-flight micro-batches.")
    recompute: float = Field(description="Tensors that one block rebuilds in its backward.")
    working: float = Field(default=0.0, description="Temporaries of the block at work.")
    reserved: float = Field(default=0.0, description="Context, communicators and allocator slack.")
    staging: float = Field(
        default=0.0, description="Room for activations on their way to or from host memory."
    )


class PlacedTensor(Answer):
    """A recomputed tensor that is rebuilt while a collective of a backward runs."""

    tensor: str = Field(description="One of those recomputed.")
    window: str = Field(description="The communication op whose backward it hides under.")
    following: bool = Field(
        description="Whether that op is of the following block, whose backward comes first; else "
        "it is of the block's own."
    )


class BlockRecompute(Answer):
    """So many blocks of a kind on the stage recompute these tensors.

    Where tensors are placed in windows the entries follow the blocks in the order of the model.
    """

    block: str = Field(description="Kind of block.")
    count: int = Field(description="How many of them.")
    recomputed: list[str] = Field(
        description="Tensors run again in backward; empty: all needed ones are kept."
    )
    whole: bool = Field(
        default=False,
        description="The framework re-runs the whole block, outputs that nobody needs included.",
    )
    repeated: list[str] = Field(
        default_factory=list,
        description="Ops that the framework runs again although their outputs are kept.",
    )
    shares: dict[str, float] = Field(
        default_factory=dict,
        description="Tensors of which the framework keeps this share and runs the rest again, or "
        "which it keeps although nobody needs them.",
    )
    group: int = Field(
        default=1, description="Blocks recomputed together, keeping only the first one's input."
    )
    placed: list[PlacedTensor] = Field(
        default_factory=list,
        description="Those of them that hide under communication; the others run on demand.",
    )
    offloaded: dict[str, float] = Field(
        default_factory=dict,
        description="Tensors that wait in host memory, `x` being the block's input, each with the "
        "share of it that does; the rest of it is kept.",
    )


class Tensor(Answer):
    """What one op of a block makes."""

    name: str = Field(description="The op's name.")
    bytes: float = Field(description="Its size.")
    forward_seconds: float = Field(description="Making it again takes so long.")
    needed: bool = Field(description="Whether some backward reads it.")


class BlockKind(Answer):
    """A kind of block: what it could keep. Its input is always kept."""

    count: int = Field(description="How many the model has.")
    input_bytes: float = Field(description="The block's input, always kept.")
    tensors: list[Tensor] = Field(description="In forward order; one micro-batch on one device.")


class Stage(Answer):
    """One pipeline stage: what it holds, how long it takes, what it needs."""

    index: int = Field(description="Pipeline rank.")
    device: str | None = Field(
        default=None, description="What it runs on; null where all devices are alike."
    )
    chunk: int | None = Field(
        default=None, description="Model chunk on that rank; null without virtual stages."
    )
    blocks: list[tuple[str, int]] = Field(
        description="Kinds of block in model order, each with a count."
    )
    forward_seconds: float = Field(description="One micro-batch.")
    backward_seconds: float = Field(
        description="One micro-batch, recompute included unless it runs ahead."
    )
    weight_gradient_seconds: float = Field(
        default=0.0,
        description="Gradients of weights of one micro-batch, where the schedule makes them apart "
        "from backward.",
    )
    recompute_seconds: float = Field(
        description="What running forward ops again adds to one micro-batch."
    )
    recomputes_ahead: bool = Field(
        default=False,
        description="Whether that is work of its own just before each backward pass, that does not "
        "wait for the gradient and is no part of `backward_seconds`.",
    )
    ahead_seconds: float = Field(
        default=0.0, description="How long it takes; 0 where recompute runs on demand."
    )
    hidden_recompute_seconds: float = Field(
        default=0.0, description="Forward ops run again under communication, apart from those."
    )
    gather_seconds: float = Field(
        default=0.0, description="Gathering its weights before the first pass, where not hidden."
    )
    reduction_seconds: float = Field(
        default=0.0, description="Reducing its gradients after the last pass, where not hidden."
    )
    step_seconds: float = Field(default=0.0, description="Updating its weights.")
    in_flight: int = Field(
        description="Micro-batches whose kept tensors are held at once, at most."
    )
    kept_bytes: float = Field(
        default=0.0, description="Kept for the backward of one micro-batch, inputs included."
    )
    waiting_bytes: float = Field(
        default=0.0,
        description="Held from the end of a micro-batch's backward until its gradients of weights "
        "are made, where the schedule makes them apart.",
    )
    peak_memory_bytes: float = Field(
        description="What the stage's device needs at most, the reserve included; plans are made "
        "with this."
    )
    memory_limit_bytes: float | None = Field(
        default=None, description="Usable bytes of the stage's device."
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
    recompute: list[BlockRecompute] = Field(description="What its blocks recompute.")


class Breakdown(Answer):
    """Where the iteration's time goes, on average over the stages; the lines add up to it."""

    compute: float = Field(description="Forward and backward ops that occupy the compute units.")
    recompute: float = Field(description="Forward ops run again.")
    bubble: float = Field(description="Devices that wait.")
    tensor_parallel: float = Field(description="Exposed collectives of tensor parallelism.")
    pipeline_parallel: float = Field(description="Sends on the critical path.")
    data_parallel: float = Field(
        description="Exposed reduction of gradients and gathering of weights."
    )
    optimizer: float = Field(description="The update.")
    context_parallel: float = Field(default=0.0, description="Exposed exchange of keys and values.")
    expert_parallel: float = Field(default=0.0, description="Exposed exchange of tokens.")
    other: float = Field(default=0.0, description="What an iteration costs whatever the plan.")


class CalibrationUsed(Answer):
    """The efficiencies that seconds were computed with."""

    name: str = Field(description="Of the request's calibration, or of the family that ships.")
    version: str = Field(description="Content address; other content, another version.")
    runs: int | None = Field(default=None, description="Measured runs that the band rests on.")


Band = Annotated[
    tuple[float, float] | None,
    Field(
        description="Where nine of ten measured iterations lie, after the runs that the "
        "calibration was not fitted to; null for a profile.",
    ),
]


class Evaluation(Answer):
    """Time and memory of a given layout, partition and recompute policy."""

    iteration_seconds: float = Field(
        description="Simulated makespan of one iteration, the update included."
    )
    tokens_per_second_per_device: float | None = Field(description="Null for a profile.")
    model_flops_utilization: float | None = Field(
        description="Without recompute, of the dense peak; null for a profile."
    )
    fits: bool = Field(description="Whether every device stays within the memory limit.")
    peak_memory_bytes: float = Field(description="The fullest device.")
    memory_limit_bytes: float = Field(
        description="Usable bytes of a device; of the smallest where they differ."
    )
    layout: LayoutAnswer
    micro_batches: int = Field(description="Per pipeline and iteration.")
    stages: list[Stage] = Field(description="In model order.")
    breakdown: Breakdown
    pipeline_send_seconds: float = Field(
        default=0.0, description="One boundary tensor between neighbouring stages."
    )
    block_kinds: dict[str, BlockKind] = Field(default_factory=dict)
    offload: OffloadAnswer | None = Field(
        default=None, description="Null where every activation stays on its device."
    )
    calibration: CalibrationUsed | None = Field(
        default=None, description="What its seconds rest on; null for a profile."
    )
    iteration_seconds_band: Band = None
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the request should know."
    )


class OffloadAnswer(Answer):
    """How a plan that offloads activations uses the host; all of one device and its share of it."""

    bytes_per_second: float = Field(
        description="The link to the host, one direction; of the first device where they differ."
    )
    host_memory_bytes: float | None = Field(description="The host's memory; null: unlimited.")
    host_peak_bytes: float = Field(description="The most that some device has in it at once.")
    staging_bytes: float = Field(
        description="Room on every device for what is on its way; the largest where they differ."
    )
    block_bytes: dict[str, float] = Field(
        description="What a block of each kind may offload: what hides under its own compute, and "
        "at most its part of the host's memory. Of the first device where they differ."
    )


class Baseline(Answer):
    """What another method would get on the same costs."""

    iteration_seconds: float | None = Field(description="Null if it has no plan that fits.")
    fits: bool = Field(description="Whether it stays within the memory limit.")
    peak_memory_bytes: float | None = Field(default=None, description="The fullest device.")
    speed_up: float | None = Field(
        default=None, description="The baseline's iteration time over this plan's."
    )
    note: str = Field(default="", description="What it does.")


class SolverReport(Answer):
    """How the answer was found."""

    seconds: float = Field(description="Wall time of the solve.")
    engine: str = Field(
        description="`bounds` if bounds alone proved the plan, else the program solver."
    )
    version: str = Field(description="Plans of different versions are not comparable.")
    layouts_considered: int = Field(description="Legal layouts of the request.")
    layouts_pruned: int = Field(description="Given up by their bound.")
    layouts_infeasible: int = Field(default=0, description="No partition fits.")
    layouts_unfinished: int = Field(
        default=0,
        description="Neither solved nor given up: time ran out, or they share devices between "
        "stages and were too many. Their bound is in `lower_bound_seconds`.",
    )
    layouts_solved: int = Field(default=0, description="Partitions decided one by one.")
    pruned_by: dict[str, int] = Field(
        default_factory=dict,
        description="Layouts by the bound that decided against them: `work`, `memory` (cannot "
        "fit, counted as infeasible), `bubble`, `cuts` (that the memory allows), `partition`.",
    )
    rows: int = Field(default=0, description="Critical-path rows in the final program.")
    rounds: int = Field(default=0, description="Solve-and-simulate rounds for the winner.")


class Shortfall(Answer):
    """A stage that cannot fit, even under full recompute."""

    stage: int = Field(description="The fullest stage.")
    missing_bytes: float = Field(description="What it lacks.")
    needed_bytes: float = Field(description="What it needs.")
    memory_limit_bytes: float = Field(description="Usable bytes of a device.")
    layout: LayoutAnswer = Field(description="The layout that comes nearest to fitting.")


class Export(Answer):
    """A plan in a framework's own words, and what those words cannot say."""

    framework: str = Field(description="Its name.")
    version: str = Field(default="", description="The framework's version that its rules are of.")
    arguments: list[str] = Field(
        default_factory=list, description="Flags, where it is told by flags."
    )
    file: str = Field(default="", description="A name for the configuration file.")
    media_type: str = Field(default="text/plain", description="Kind of the configuration file.")
    text: str = Field(default="", description="The configuration file; of flags, one a line.")
    exact: bool = Field(description="Whether these words say all that the plan decides.")
    notes: list[str] = Field(description="What they cannot say, and what to know of them.")


class Restriction(Answer):
    """What it costs that a framework is to run the plan."""

    framework: str = Field(description="Its name.")
    version: str = Field(description="Its version that the rules are of.")
    setting: dict[str, bool | int | str | list[str]] = Field(
        description="The recompute setting for the whole model, in the framework's own words; "
        "empty where layers or stages are told apart."
    )
    iteration_seconds_free: float | None = Field(
        description="Of the best plan that no framework restricts; null if none was found in time."
    )
    lower_bound_seconds_free: float = Field(description="Proved: no plan whatever is faster.")
    cost: float = Field(
        description="By what share the plan is slower than the free one; where that is not known, "
        "by what share at most."
    )


class LostBy(StrEnum):
    """In what a layout falls behind the plan's own most."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    BUBBLE = "bubble"
    MEMORY = "memory"
    OPEN = "open"


class Choice(Answer):
    """A value that a field of the layout may have, and what it costs."""

    field: str = Field(description="Field of the layout.")
    value: int | str | bool = Field(description="Its value.")
    chosen: bool = Field(description="Whether the plan has it.")
    iteration_seconds: float | None = Field(
        description="The best plan with this value that was made; null where none was."
    )
    lower_bound_seconds: float = Field(description="Proved for every plan with this value.")
    slower_at_least: float = Field(description="Than the plan, proved; 0 where that is open.")
    slower_at_most: float | None = Field(description="Than the plan, by the best one made.")


class TradeOff(Answer):
    """A plan of the same layout that needs less memory."""

    memory_bytes: float = Field(description="Usable bytes that a device was given.")
    peak_memory_bytes: float = Field(description="What the fullest device needs.")
    iteration_seconds: float = Field(description="Of the best plan within that memory.")
    lower_bound_seconds: float = Field(description="Proved for this layout and memory.")


class Alternative(Answer):
    """A layout that did not win."""

    layout: LayoutAnswer
    iteration_seconds: float | None = Field(
        description="Its best plan; null where its bound alone decided against it."
    )
    lower_bound_seconds: float = Field(description="Proved: nothing in this layout is faster.")
    slower: float = Field(
        description="By what share it is slower, or by what share at least where only bounded."
    )
    reason: LostBy = Field(
        default=LostBy.OPEN,
        description="In what it falls behind most: `compute` of its blocks, `communication`, "
        "`bubble`, or `memory`, which makes it recompute; `open` where its bound does not decide.",
    )


class WhatIf(Answer):
    """A change of the question, solved again."""

    change: str = Field(description="What is changed.")
    iteration_seconds: float = Field(description="Of the best plan then.")
    gain: float = Field(description="Work per second over the plan's own, less one.")


class Price(Answer):
    """A narrower question, answered on the winning layout."""

    restriction: str = Field(description="What is no longer free.")
    iteration_seconds: float | None = Field(
        description="Of the best plan under it; null if none fits."
    )
    slower: float | None = Field(description="By what share that is slower; null if none fits.")
    num_layers: int | None = Field(default=None, description="The best k, where there is one.")


class Explanation(Answer):
    """Why the plan is as fast as it is, and what would help."""

    bottleneck_stage: int = Field(description="Index into `stages`.")
    bottleneck_share: float = Field(
        description="Share of the iteration that its passes take on the critical path."
    )
    limited_by: str = Field(
        description="`memory` if it recomputes because its device is full, else `time`."
    )
    what_if: list[WhatIf] = Field(default_factory=list)
    prices: list[Price] = Field(
        default_factory=list,
        description="What restrictions would cost; of plans that take milliseconds to make.",
    )


class Plan(Answer):
    """The best plan, or why there is none."""

    id: str = Field(description="Content address of the request under this solver version.")
    status: Status
    iteration_seconds: float | None = Field(
        default=None, description="Simulated makespan of one iteration, the update included."
    )
    tokens_per_second_per_device: float | None = Field(
        default=None, description="Null for a profile."
    )
    model_flops_utilization: float | None = Field(
        default=None, description="Without recompute, of the dense peak; null for a profile."
    )
    fits: bool | None = Field(default=None, description="False if nothing fits.")
    peak_memory_bytes: float | None = Field(default=None, description="The fullest device.")
    memory_limit_bytes: float | None = Field(default=None, description="Usable bytes of a device.")
    layout: LayoutAnswer | None = None
    micro_batches: int | None = Field(default=None, description="Per pipeline and iteration.")
    stages: list[Stage] = Field(default_factory=list, description="In model order.")
    breakdown: Breakdown | None = None
    pipeline_send_seconds: float = Field(
        default=0.0, description="One boundary tensor between neighbouring stages."
    )
    block_kinds: dict[str, BlockKind] = Field(default_factory=dict)
    offload: OffloadAnswer | None = None
    lower_bound_seconds: float | None = Field(
        default=None, description="Proved: no plan in the asked space is faster."
    )
    gap: float | None = Field(
        default=None, description="1 - lower_bound_seconds / iteration_seconds."
    )
    baselines: dict[str, Baseline] = Field(
        default_factory=dict, description="What others would get on the same costs, by name."
    )
    explanation: Explanation | None = None
    alternatives: list[Alternative] = Field(
        default_factory=list, description="The best of the other layouts, best first."
    )
    choices: list[Choice] = Field(
        default_factory=list, description="What each value of each open field costs."
    )
    fixed_fields: list[str] = Field(
        default_factory=list,
        description="Fields of the layout that had one value: the request or its target gave it, "
        "or it is the only one where the request lists none.",
    )
    trade_off: list[TradeOff] = Field(
        default_factory=list,
        description="Time against memory, ascending in memory; where `solver.trade_off` asks.",
    )
    exports: list[Export] = Field(
        default_factory=list, description="The plan in the words of frameworks."
    )
    restriction: Restriction | None = Field(
        default=None, description="What the request's target costs; null without one."
    )
    shortfall: Shortfall | None = None
    solver: SolverReport | None = None
    calibration: CalibrationUsed | None = Field(
        default=None, description="What its seconds rest on; null for a profile."
    )
    iteration_seconds_band: Band = None
    request: dict[str, JsonValue] | None = Field(
        default=None, description="What it answers, so that it can be checked by itself."
    )
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the request should know."
    )
    error: str | None = Field(default=None, description="Why there is no plan, in words.")
