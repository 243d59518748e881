"""The request: what a caller asks, validated at the edge.

One request serves planning and evaluation. Field names are fixed by the project's contract;
unknown fields are refused with their path. A layout field that is absent or null is for the solver
to choose. Quantities are SI.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    Discriminator,
    Field,
    JsonValue,
    PlainSerializer,
    Tag,
    field_validator,
    model_validator,
)

from solver.calibrations import Calibration
from solver.strict import Name, Strict

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Bytes = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]


class ScheduleName(StrEnum):
    """The pipeline schedules the solver knows."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    ZB_H1 = "zb-h1"
    ZB_V = "zb-v"
    CHIMERA = "chimera"


class OpKindName(StrEnum):
    """What an op of a profile occupies."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"


class ProfileOp(Strict):
    """One op of a profiled block, and the tensor it makes."""

    name: Name = Field(description="The op, and the tensor that it makes.")
    inputs: list[Name] = Field(default_factory=list, description='"x" or earlier ops.')
    forward_seconds: Seconds = Field(description="One micro-batch.")
    backward_seconds: Seconds = Field(description="One micro-batch, recompute apart.")
    weight_seconds: Seconds = Field(
        default=0.0,
        description="The part of `backward_seconds` that makes the gradients of weights; schedules "
        "`zb-h1` and `zb-v` run it apart from the rest.",
    )
    weight_held_bytes: Bytes = Field(
        default=0.0,
        description="What that part reads, held from the end of the backward until it has run: the "
        "op's input and the gradient of its output.",
    )
    output_bytes: Bytes = Field(description="Size of the tensor that the op makes.")
    backward_reads: list[Name] = Field(
        default_factory=list, description="Tensors that this op's backward reads."
    )
    kind: OpKindName = OpKindName.COMPUTE


class ProfileBlock(Strict):
    """One kind of block: its states, its input and its ops in forward order."""

    state_bytes: Bytes = Field(
        description="Weights, gradients and optimizer state of one block on one device."
    )
    input_bytes: Bytes = Field(description='The block\'s input "x": always kept for backward.')
    ops: list[ProfileOp] = Field(min_length=1, max_length=512, description="In forward order.")


class Profile(Strict):
    """Measured or hand-made costs of a model, one micro-batch on one device."""

    blocks: dict[Name, ProfileBlock] = Field(
        min_length=1, max_length=64, description="Kinds of block by name."
    )
    sequence: list[tuple[Name, Annotated[int, Field(ge=1, le=4096)]]] = Field(
        min_length=1,
        max_length=4096,
        description="Block names in model order, each with a count.",
    )
    pipeline_send_seconds: Seconds = Field(
        default=0.0, description="One boundary tensor between neighbouring stages."
    )
    overlap_slowdown: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = Field(
        default=1.0, description="How much longer an op takes that is recomputed in a window."
    )


class Model(Strict):
    """The model to train: exactly one of the forms."""

    name: Name | None = Field(default=None, description="An entry of the model catalogue.")
    huggingface: dict[str, JsonValue] | None = Field(
        default=None, description="The content of a Hugging Face config.json."
    )
    megatron_args: dict[str, JsonValue] | str | None = Field(
        default=None, description="Megatron-LM's own flags."
    )
    profile: Profile | None = None

    @model_validator(mode="after")
    def _exactly_one_form(self) -> Self:
        given = [form for form in _MODEL_FORMS if getattr(self, form) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise ValueError(f"give exactly one of {', '.join(_MODEL_FORMS)}; found {found}")
        return self


_MODEL_FORMS = ("name", "huggingface", "megatron_args", "profile")


class StageDevice(Strict):
    """The device of one pipeline stage, where they differ."""

    memory_bytes: Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)] | None = Field(
        default=None, description="Its usable bytes; `cluster.memory_bytes` if absent."
    )
    slowdown: Annotated[float, Field(ge=1e-3, le=1e3, allow_inf_nan=False)] = Field(
        default=1.0, description="Every op takes so many times the profile's seconds on it."
    )


class SwitchLevel(Strict):
    """One level of switches: leafs, to which nodes are plugged, spines above them, and so on."""

    nodes: Count = Field(description="Nodes below one switch of this level.")
    oversubscription: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = Field(
        description="Rate of a switch's links downwards over that of its links upwards."
    )


class Pool(Strict):
    """Nodes of one device among several kinds, joined by the same network."""

    device: Name = Field(description="An entry of the device catalogue.")
    nodes: Count = Field(description="Nodes of the pool.")
    devices_per_node: Annotated[int, Field(ge=1, le=1024)] = Field(
        description="Devices of one node."
    )
    memory_bytes: Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)] | None = Field(
        default=None, description="Usable bytes per device; the device's own memory if absent."
    )
    fabric: Annotated[str, Field(max_length=500)] | None = Field(
        default=None, description="Its network in words, as `cluster.fabric`."
    )
    inter_node_bytes_per_second: (
        Annotated[float, Field(ge=1, le=1e15, allow_inf_nan=False)] | None
    ) = Field(default=None, description="Per device, one direction; overrides `fabric`.")
    switches: list[SwitchLevel] | None = Field(
        default=None,
        min_length=1,
        max_length=4,
        description="Its switches with oversubscribed links upwards, as `cluster.switches`. What "
        "goes to another pool leaves through all of them, one that is above the whole pool too.",
    )


class Cluster(Strict):
    """The devices: a catalogue device with a node count, or for a profile just the memory."""

    name: Name | None = Field(default=None, description="A stored cluster.")
    device: Name | None = Field(default=None, description="An entry of the device catalogue.")
    nodes: Count | None = Field(default=None, description="Nodes of the cluster.")
    devices_per_node: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Devices of one node."
    )
    memory_bytes: Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)] | None = Field(
        default=None, description="Usable bytes per device; the device's own memory if absent."
    )
    fabric: Annotated[str, Field(max_length=500)] | None = Field(
        default=None,
        description="Inter-node fabric in words, such as '400 Gb/s InfiniBand per GPU'.",
    )
    inter_node_bytes_per_second: (
        Annotated[float, Field(ge=1, le=1e15, allow_inf_nan=False)] | None
    ) = Field(default=None, description="Per device, one direction; overrides `fabric`.")
    switches: list[SwitchLevel] | None = Field(
        default=None,
        min_length=1,
        max_length=4,
        description="Switches above nodes, from the leafs up, where their links upwards are "
        "oversubscribed; those of the topology if absent, without one none: any two nodes reach "
        "each other at full rate.",
    )
    host_bytes_per_second: Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)] | None = (
        Field(
            default=None,
            description="For `recompute.offload`: a device's link to its host, one way, while "
            "all devices of the node use theirs; as usual for the device if absent.",
        )
    )
    host_memory_bytes: Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)] | None = Field(
        default=None,
        description="For `recompute.offload`: a device's share of its host's memory that "
        "activations may take; as usual for the device if absent, unlimited for a profile.",
    )
    topology: JsonValue = Field(
        default=None,
        description="A topology file as text, or the value of a JSON one; the format is "
        "recognised.",
    )
    stage_devices: list[StageDevice] | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        description="For a profile: the device of each pipeline stage, where they differ.",
    )
    pools: list[Pool] | None = Field(
        default=None,
        min_length=2,
        max_length=3,
        description="In place of `device` and `nodes`: pools of different devices. Every stage "
        "stands in one of them; the stages of a pool follow one another.",
    )

    @model_validator(mode="after")
    def _pools_alone(self) -> Self:
        others = [name for name in _ONE_KIND if getattr(self, name) is not None]
        if self.pools is not None and others:
            raise ValueError(f"pools stand alone; {others[0]} is said of each pool")
        return self


_ONE_KIND = (
    "name",
    "device",
    "nodes",
    "devices_per_node",
    "memory_bytes",
    "fabric",
    "inter_node_bytes_per_second",
    "switches",
    "host_bytes_per_second",
    "host_memory_bytes",
    "topology",
    "stage_devices",
)


class Precision(StrEnum):
    """Arithmetic of the matrix products."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    FP32 = "fp32"


class AttentionKernel(StrEnum):
    """How attention is computed: fused without its score matrix, or op by op."""

    FLASH = "flash"
    UNFUSED = "unfused"


class Optimizer(StrEnum):
    """The optimizer, for its state and its update time."""

    ADAM = "adam"
    SGD = "sgd"


class Software(StrEnum):
    """Training software whose use of memory is known (``workload/software.json``)."""

    MEGATRON_LM = "megatron-lm"
    MEGATRON_DEEPSPEED = "megatron-deepspeed"
    NANOTRON = "nanotron"
    TORCHTITAN = "torchtitan"
    INTERNEVO = "internevo"


class Training(Strict):
    """The training run. With a profile, ``global_batch_size`` counts micro-batches per pipeline."""

    sequence_length: Annotated[int, Field(ge=1, le=16_777_216)] | None = Field(
        default=None, description="Tokens of one sequence."
    )
    global_batch_size: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None,
        description="Sequences of one iteration; micro-batches per pipeline of a profile.",
    )
    precision: Precision = Precision.BF16
    attention: AttentionKernel = AttentionKernel.FLASH
    optimizer: Optimizer = Optimizer.ADAM
    overlap_data_parallel: bool | None = Field(
        default=None,
        description="Whether gradients are reduced and weights gathered while others compute; as "
        "such software usually does if absent.",
    )
    overlap_expert_parallel: bool = Field(
        default=False,
        description="Whether the exchange of experts' tokens runs beside the products of another "
        "micro-batch (Megatron-LM's `--overlap-moe-expert-parallel-comm`). In a pipeline it takes "
        "several chunks per device: list `layout.virtual_stages`.",
    )
    software: Software | None = Field(
        default=None,
        description="The training software, where its use of memory and its division of layers "
        "over stages are known; Megatron-LM's, or PyTorch FSDP's with ZeRO 2 and 3, if absent.",
    )


class RankOrder(StrEnum):
    """Which ranks are neighbours: the first kind of parallelism varies fastest over the ranks."""

    DATA_INSIDE = "tp-cp-ep-dp-pp"
    PIPELINE_INSIDE = "tp-cp-ep-pp-dp"


class ContextMethod(StrEnum):
    """How devices that share sequences bring queries and keys together."""

    RING = "ring"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"


def _is_list(value: Any) -> str:
    return "several" if isinstance(value, list) else "one"


_Value = TypeVar("_Value")
_Several = Annotated[list[_Value], Field(min_length=1, max_length=64), Tag("several")]
OneOrSeveral = Annotated[Annotated[_Value, Tag("one")] | _Several[_Value], Discriminator(_is_list)]
"""A field's value, or the values that it may take."""


class LayoutRequest(Strict):
    """The parallel layout: a value fixes a field, a list leaves the choice among its values.

    Whatever is absent or null is for the solver to choose; an evaluation, which chooses nothing,
    takes the default that is named.
    """

    tensor_parallel: OneOrSeveral[Count] | None = Field(
        default=None, description="Devices that share each layer."
    )
    pipeline_parallel: OneOrSeveral[Count] | None = Field(
        default=None, description="Devices of a pipeline."
    )
    context_parallel: OneOrSeveral[Count] | None = Field(
        default=None,
        description="Devices that share each sequence in attention; evaluated as 1 if absent.",
    )
    expert_parallel: OneOrSeveral[Count] | None = Field(
        default=None,
        description="Devices over which the experts are spread; evaluated as 1 if absent.",
    )
    data_parallel: OneOrSeveral[Count] | None = Field(
        default=None, description="Replicas of the pipeline."
    )
    virtual_stages: OneOrSeveral[Annotated[int, Field(ge=1, le=512)]] | None = Field(
        default=None,
        description="Model chunks per pipeline device; 1 if absent, others where listed.",
    )
    micro_batch_size: OneOrSeveral[Annotated[int, Field(ge=1, le=65_536)]] | None = Field(
        default=None, description="Sequences of one micro-batch."
    )
    sequence_parallel: OneOrSeveral[bool] | None = Field(
        default=None,
        description="Split norms and residuals too; evaluated as with tensor parallelism if "
        "absent.",
    )
    zero_stage: OneOrSeveral[Annotated[int, Field(ge=0, le=3)]] | None = Field(
        default=None,
        description="Sharded over replicas: 1 optimizer (evaluated so if absent), 2 also "
        "gradients, 3 also weights.",
    )
    schedule: OneOrSeveral[ScheduleName] | None = Field(
        default=None, description="1F1B if absent; several are searched where listed."
    )
    expert_tensor_parallel: OneOrSeveral[Count] | None = Field(
        default=None,
        description="Devices that share each expert; evaluated as `tensor_parallel` if absent.",
    )
    interleaving_group: Count | None = Field(
        default=None,
        description="Micro-batches that an interleaved schedule takes through a chunk in a row; "
        "as many as pipeline devices if absent.",
    )
    sharding_group: OneOrSeveral[Count] | None = Field(
        default=None,
        description="Replicas (data times context parallel) over which states are sharded, each "
        "group holding them all; evaluated as all of them if absent.",
    )
    rank_order: OneOrSeveral[RankOrder] | None = Field(
        default=None,
        description="Which ranks are neighbours, fastest first; evaluated as tp-cp-ep-dp-pp if "
        "absent.",
    )
    context_method: OneOrSeveral[ContextMethod] | None = Field(
        default=None,
        description="With context parallelism: keys and values go round a ring beside attention, "
        "are gathered before it, or heads are exchanged for tokens; evaluated as ring if absent, "
        "with sliding windows as all-gather.",
    )
    stage_pools: list[tuple[Annotated[int, Field(ge=0, le=2)], Count]] | None = Field(
        default=None,
        min_length=1,
        max_length=3,
        description="Where `cluster.pools` has several: pairs of a pool, counted from 0, and its "
        "number of stages, in the order of the pipeline.",
    )

    @field_validator("*")
    @classmethod
    def _in_order(cls, value: Any) -> Any:
        """A list without repetitions, ascending; of one value, the value."""
        if not isinstance(value, list) or isinstance(value[0], tuple):
            return value
        distinct = sorted(set(value))
        return distinct if len(distinct) > 1 else distinct[0]

    def values(self, name: str) -> tuple[Any, ...] | None:
        """What a field may be, ascending; None if the request leaves it open."""
        value = getattr(self, name)
        if value is None:
            return None
        return tuple(value) if isinstance(value, list) else (value,)


class Policy(StrEnum):
    """Who decides what is recomputed: the solver, or a rule of some framework or paper."""

    OPTIMAL = "optimal"
    NONE = "none"
    FULL = "full"
    SELECTIVE = "selective"
    UNIFORM = "uniform"
    BLOCK = "block"
    ADAPIPE = "adapipe"
    LYNX_HEU = "lynx-heu"


class Overlap(StrEnum):
    """Where recomputation may hide."""

    OFF = "off"
    COMMUNICATION = "communication"
    STALLS = "stalls"
    ALL = "all"


class Offload(StrEnum):
    """Whether activations may wait in host memory."""

    OFF = "off"
    ON = "on"


class ChoicePer(StrEnum):
    """Which blocks of a kind must recompute the same tensors."""

    BLOCK = "block"
    STAGE = "stage"
    MODEL = "model"


class Recompute(Strict):
    """What may be recomputed."""

    policy: Policy = Field(
        default=Policy.OPTIMAL,
        description="Who decides what is recomputed: the solver, a framework's rule, or a paper's "
        "method. `adapipe` and `lynx-heu` decide the cuts too: a plan is the best of what the "
        "method makes of each layout, for 1F1B (`lynx-heu`: or GPipe) with one stage per device.",
    )
    modules: list[Name] | None = Field(
        default=None, description="For `selective`: the modules to recompute."
    )
    num_layers: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        default=None,
        description="For `block`: layers recomputed per stage; for `uniform`: the group size.",
    )
    choice_per: ChoicePer = Field(
        default=ChoicePer.BLOCK,
        description="For `optimal`: each block chooses for itself, or all of a kind on a stage, or "
        "in the model, choose alike.",
    )
    overlap: Overlap | None = Field(
        default=None,
        description="Where recomputation may hide: in `communication` of the backward, in `stalls` "
        "of the pipeline, `all` of them, or `off`. Absent: what the target runs, `stalls` for "
        "mindspeed with one layer in each chunk, else `off`; `off` without a target too. Stalls "
        "are those of `1f1b`, with any chunks, of `gpipe` and of `chimera`.",
    )
    offload: Offload = Field(
        default=Offload.OFF,
        description="For `optimal`: with `on` what a block keeps may also wait in host memory, as "
        "much as passes the link under the block's own compute; whether a plan does so is chosen.",
    )

    @property
    def keeps_inputs(self) -> bool:
        """Whether every layer's input stays on its device in every plan."""
        return self.policy is not Policy.UNIFORM and self.offload is Offload.OFF


class Target(Strict):
    """The framework that is to run the plan."""

    framework: Name = Field(
        description="Its name: megatron-lm, megatron-bridge, mindspeed, mindformers, "
        "mindformers-graph, deepspeed, torchtitan, colossalai, galvatron or pytorch."
    )


class Granularity(StrEnum):
    """Where the model may be cut: between layers, or between their attention and MLP halves too."""

    LAYER = "layer"
    HALF = "half"


class BaselineName(StrEnum):
    """What a plan can be shown beside: what other methods make of its layout."""

    NONE = "none"
    FULL = "full"
    SELECTIVE = "selective"
    BLOCK = "block"
    EVEN_SPLIT = "even-split"
    ADAPIPE = "adapipe"
    LYNX_HEU = "lynx-heu"
    NO_OVERLAP = "no-overlap"
    CHIMERA = "chimera"
    SUM_AND_BOTTLENECK = "sum-and-bottleneck"
    SAPP = "sapp"


class SolverOptions(Strict):
    """Limits of the search, and how finely it cuts."""

    time_limit_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=30.0, description="Then the best plan so far is answered, with its gap."
    )
    relative_gap: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=1e-4, description="Proved distance to the optimum at which the search may stop."
    )
    granularity: Granularity = Field(
        default=Granularity.LAYER,
        description="Cut between layers, or between the halves of layers too (not for a profile).",
    )
    alternatives: Annotated[int, Field(ge=0, le=64)] = Field(
        default=8, description="Layouts shown beside the best one."
    )
    trade_off: bool = Field(
        default=False,
        description="Solve the plan's layout again under smaller memories: time against memory.",
    )
    baselines: list[BaselineName] | None = Field(
        default=None,
        max_length=len(BaselineName),
        description="What to show beside the plan, as far as it is made for its schedule; all but "
        "`sapp` if absent, whose integer program may take seconds.",
    )


class PlanRequest(Strict):
    """A model, a cluster and a training run, with whatever the caller wants to fix."""

    model: Model
    cluster: Cluster
    training: Training = Training()
    layout: LayoutRequest = LayoutRequest()
    recompute: Recompute = Recompute()
    target: Target | None = None
    calibration: Calibration | None = Field(
        default=None,
        description="Efficiencies fitted to own runs, by name or with their content; those that "
        "ship with the solver if absent.",
    )
    solver: SolverOptions = SolverOptions()


def canonical(request: PlanRequest) -> dict[str, Any]:
    """The request in a form whose JSON identifies it: every default filled.

    Megatron-LM's flags fill what the request leaves out, so there what was left out stays out: the
    same question with a default spelt out may have another answer.
    """
    flags = request.model.megatron_args is not None
    return request.model_dump(mode="json", exclude_unset=flags)


Job = Annotated[PlanRequest, PlainSerializer(canonical, dict[str, Any], when_used="json")]
"""A plan's request within another request, which is stored and identified as by ``canonical``."""
