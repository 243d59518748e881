"""From Megatron-LM's flags to everything a request can be filled with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from solver.workload.architecture import Architecture
from solver.workload.implementation import Implementation
from solver.workload.megatron.flags import Flags, read_flags, wrong
from solver.workload.megatron.harmless import HARMLESS
from solver.workload.megatron.memory import read_implementation
from solver.workload.megatron.model import GPT2_VOCABULARY, read_model
from solver.workload.megatron.patterns import StageContent
from solver.workload.megatron.stages import read_stages

_OPTIMIZERS = {"adam": "adam", "sgd": "sgd", "muon": "adam", "dist_muon": "adam"}

Settings = dict[str, Any]
"""Fields of a request's part and the values that the flags imply."""


@dataclass(frozen=True)
class MegatronRun:
    """What the flags say.

    ``training``, ``layout`` and ``recompute`` hold fields of those parts of a request.
    ``stages``: what each (virtual) pipeline stage holds.
    """

    architecture: Architecture
    training: Settings
    layout: Settings
    recompute: Settings
    implementation: Implementation
    stages: tuple[StageContent, ...]
    notes: list[str] = field(default_factory=list)


def read_megatron_args(content: Mapping[str, Any] | str) -> MegatronRun:
    """Read the flags of a Megatron-LM run.

    Args:
        content: Flag to value (true for a switch), or the command line as one string.

    Raises:
        BadRequest: A flag is missing, cannot be read, or contradicts another; the error's field
            names it.
    """
    flags = read_flags(content)
    model = read_model(flags)
    stages = read_stages(flags, model)
    return MegatronRun(
        architecture=model,
        training=_training(flags),
        layout=_layout(flags, model, stages),
        recompute=_recompute(flags),
        implementation=read_implementation(flags),
        stages=stages,
        notes=_notes(flags),
    )


def _training(flags: Flags) -> Settings:
    settings: Settings = {
        "sequence_length": flags.required_integer("--seq-length"),
        "precision": _precision(flags),
        "attention": _attention(flags),
        "optimizer": flags.choice("--optimizer", _OPTIMIZERS, "adam"),
        "overlap_data_parallel": flags.switch("--overlap-grad-reduce"),
        "overlap_expert_parallel": flags.switch("--overlap-moe-expert-parallel-comm"),
    }
    batch = flags.optional_integer("--global-batch-size")
    if batch is not None:
        settings["global_batch_size"] = batch
    return settings


def _precision(flags: Flags) -> str:
    half = [flag for flag in ("--bf16", "--fp16") if flags.switch(flag)]
    if len(half) > 1:
        raise wrong("--fp16", "--bf16 and --fp16 exclude one another.")
    if flags.choice("--fp8-format", {"e4m3": True, "hybrid": True}, False):
        return "fp8"
    return half[0].removeprefix("--") if half else "fp32"


def _attention(flags: Flags) -> str:
    """Transformer Engine fuses attention unless told otherwise; the local layers do not."""
    fused = {"flash": "flash", "fused": "flash", "auto": "flash", "unfused": "unfused"}
    asked = flags.choice("--attention-backend", {**fused, "local": "unfused"}, "flash")
    flash = flags.switch("--use-flash-attn")
    return "unfused" if _local(flags) and not flash else str(asked)


def _local(flags: Flags) -> bool:
    known = {"local": True, "transformer_engine": False, "inference_optimized": False}
    return bool(flags.choice("--transformer-impl", known, False))


def _layout(flags: Flags, model: Architecture, stages: tuple[StageContent, ...]) -> Settings:
    tensor = flags.integer("--tensor-model-parallel-size", 1)
    devices = flags.integer("--pipeline-model-parallel-size", 1)
    settings: Settings = {
        "tensor_parallel": tensor,
        "pipeline_parallel": devices,
        "context_parallel": flags.integer("--context-parallel-size", 1),
        "expert_parallel": flags.integer("--expert-model-parallel-size", 1),
        "expert_tensor_parallel": flags.integer("--expert-tensor-parallel-size", tensor),
        "virtual_stages": len(stages) // devices,
        "sequence_parallel": flags.switch("--sequence-parallel") and tensor > 1,
        "zero_stage": _zero_stage(flags),
        "schedule": "1f1b",
    }
    heads = model.layers[0][0].attention.heads
    if heads % tensor:
        raise wrong(
            "--tensor-model-parallel-size",
            f"{heads} attention heads are not divisible by {tensor}.",
        )
    if flags.switch("--use-tp-pp-dp-mapping"):
        settings["rank_order"] = "tp-cp-ep-pp-dp"
    method = _CONTEXT_METHODS.get(" ".join(flags.words("--cp-comm-type") or ()))
    if method is not None:
        settings["context_method"] = method
    group = _group(flags, devices)
    if group is not None:
        settings["interleaving_group"] = group
    size = flags.optional_integer("--micro-batch-size")
    if size is not None:
        settings["micro_batch_size"] = size
    return settings


_CONTEXT_METHODS = {
    "p2p": "ring",
    "all_gather": "all-gather",
    "allgather": "all-gather",
    "a2a": "all-to-all",
}
"""One word for all layers; others say it layer by layer, or mix a ring with an exchange."""


def _zero_stage(flags: Flags) -> int:
    """The distributed optimizer is ZeRO 1; sharded data parallelism says its own stage."""
    sharded = flags.switch("--use-distributed-optimizer")
    own = flags.switch("--use-megatron-fsdp") or flags.switch("--use-custom-fsdp")
    stages = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
    stage = flags.choice("--data-parallel-sharding-strategy", stages, 3 if own else 0)
    if flags.switch("--use-torch-fsdp2"):
        if sharded:
            raise wrong(
                "--use-torch-fsdp2",
                "--use-torch-fsdp2 and --use-distributed-optimizer exclude one another.",
            )
        return 3
    return int(stage) if own else int(sharded)


def _group(flags: Flags, devices: int) -> int | None:
    flag = "--microbatch-group-size-per-virtual-pipeline-stage"
    group = flags.optional_integer(flag)
    if group is not None and group < devices:
        raise wrong(flag, f"{flag} {group} is less than the {devices} pipeline devices.")
    return group


def _recompute(flags: Flags) -> Settings:
    """core/transformer/transformer_config.py: full needs a method and a number, selective none."""
    granularity = flags.choice(
        "--recompute-granularity", {"full": "full", "selective": "selective"}, None
    )
    if flags.switch("--recompute-activations"):
        if granularity == "full":
            raise wrong(
                "--recompute-activations",
                "--recompute-activations means selective; --recompute-granularity says full.",
            )
        granularity = "selective"
    method = flags.choice("--recompute-method", {"uniform": "uniform", "block": "block"}, None)
    number = flags.optional_integer("--recompute-num-layers")
    modules = flags.words("--recompute-modules")
    if granularity != "selective" and modules is not None:
        raise wrong("--recompute-modules", "--recompute-modules needs selective granularity.")
    if granularity is None:
        for flag, value in (("--recompute-method", method), ("--recompute-num-layers", number)):
            if value is not None:
                raise wrong(flag, f"{flag} needs --recompute-granularity full.")
        return {"policy": "none"}
    if granularity == "full":
        if method is None or number is None:
            missing = "--recompute-method" if method is None else "--recompute-num-layers"
            raise wrong(missing, f"Full recompute needs {missing}.", "Add it.")
        return {"policy": method, "num_layers": number}
    if method is not None or number is not None:
        flag = "--recompute-method" if method is not None else "--recompute-num-layers"
        raise wrong(flag, f"{flag} needs --recompute-granularity full.", f"Leave out {flag}.")
    return {"policy": "selective", "modules": modules or ["core_attn"]}


_OFFLOADING = frozenset({"--fine-grained-activation-offloading", "--cpu-offloading-num-layers"})
"""Flags that move activations to the host (Megatron-LM, megatron/training/arguments.py)."""


def _notes(flags: Flags) -> list[str]:
    notes = []
    if "--vocab-size" not in flags:
        notes.append(
            f"--vocab-size is not given; GPT-2's vocabulary of {GPT2_VOCABULARY} is assumed."
        )
    ignored = flags.ignored(HARMLESS)
    offloading = [flag for flag in ignored if flag in _OFFLOADING]
    if offloading:
        notes.append(
            f"{', '.join(offloading)}: activations stay on their device here, so that a run with "
            "that needs less memory than is said. recompute.offload plans what waits at the host."
        )
        ignored = [flag for flag in ignored if flag not in offloading]
    if ignored:
        notes.append(f"Flags without influence here: {', '.join(sorted(ignored)[:50])}.")
    return notes
