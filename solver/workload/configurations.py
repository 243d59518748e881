"""Configurations that teams run today: which framework's they are, and what they say of a run.

Megatron-LM's and MindSpeed's flags (also within a launch script), Megatron-Bridge's YAML,
DeepSpeed's JSON and torchtitan's TOML. Flags describe the model as well; of the others that comes
from elsewhere. Fields: DeepSpeed, docs/_pages/config-json.md; torchtitan, config/job_config.py;
Megatron-Bridge, its configuration container.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from solver.errors import BadRequest

Fields = dict[str, Any]

_MINDSPEED = ("--recompute-norm", "--recompute-activation-function", "--swap-attention")


@dataclass(frozen=True)
class Configuration:
    """What a file says: parts of a request, by their names there.

    ``flags``: Megatron-LM's own, which describe the model too; empty for other files. ``setting``:
    its recompute in the framework's own words, where no policy says it.
    """

    framework: str
    layout: Fields = field(default_factory=dict)
    training: Fields = field(default_factory=dict)
    recompute: Fields = field(default_factory=dict)
    flags: str = ""
    setting: Fields = field(default_factory=dict)


def read_configuration(text: str) -> Configuration:
    """Recognise a configuration and read it.

    Raises:
        BadRequest: It is of no kind that is known, or a value in it cannot be read.
    """
    document = _document(text)
    if document is None:
        return _of_flags(text)
    if "parallelism" in document:
        return _of_torchtitan(document)
    if "model" in document and isinstance(document["model"], Mapping):
        return _of_bridge(document)
    if "zero_optimization" in document or "train_micro_batch_size_per_gpu" in document:
        return _of_deepspeed(document)
    raise _unknown()


def _document(text: str) -> Mapping[str, Any] | None:
    """The file as JSON, TOML or YAML; None if it is none of them."""
    for reader in (json.loads, tomllib.loads, yaml.safe_load):
        try:
            found = reader(text)
        except (ValueError, yaml.YAMLError):
            continue
        if isinstance(found, Mapping):
            return found
    return None


def _unknown() -> BadRequest:
    return BadRequest(
        "This is no configuration that is known.",
        field="configuration",
        hint="Give Megatron-LM's or MindSpeed's flags, Megatron-Bridge's YAML, DeepSpeed's JSON or "
        "torchtitan's TOML.",
    )


def _of_flags(text: str) -> Configuration:
    """Flags, alone or in a shell script: from the first one on, without comments and joins."""
    lines = [re.sub(r"(^|\s)#.*$", "", line) for line in text.splitlines()]
    joined = " ".join(line.rstrip().removesuffix("\\").strip() for line in lines)
    found = re.search(r"--[A-Za-z]", joined)
    if found is None:
        raise _unknown()
    flags = joined[found.start() :].rstrip(" )\"'")
    mindspeed = any(flag in flags for flag in _MINDSPEED)
    return Configuration("mindspeed" if mindspeed else "megatron-lm", flags=flags)


def _of_bridge(document: Mapping[str, Any]) -> Configuration:
    model, train = document["model"], _part(document, "train")
    layout = _taken(
        model,
        tensor_model_parallel_size="tensor_parallel",
        pipeline_model_parallel_size="pipeline_parallel",
        virtual_pipeline_model_parallel_size="virtual_stages",
        context_parallel_size="context_parallel",
        expert_model_parallel_size="expert_parallel",
        sequence_parallel="sequence_parallel",
    )
    layout |= _taken(train, micro_batch_size="micro_batch_size")
    training = _taken(train, global_batch_size="global_batch_size")
    training |= _taken(_part(document, "dataset"), sequence_length="sequence_length")
    granularity = model.get("recompute_granularity")
    recompute: Fields = {"policy": "none"}
    if granularity == "full":
        recompute = {
            "policy": model.get("recompute_method") or "uniform",
            "num_layers": model.get("recompute_num_layers") or 1,
        }
    elif granularity == "selective":
        recompute = {
            "policy": "selective",
            "modules": model.get("recompute_modules") or ["core_attn"],
        }
    return Configuration("megatron-bridge", layout, training, recompute)


def _of_deepspeed(document: Mapping[str, Any]) -> Configuration:
    pipeline = _part(document, "pipeline")
    layout = _taken(document, train_micro_batch_size_per_gpu="micro_batch_size") | _taken(
        pipeline, stages="pipeline_parallel"
    )
    layout["zero_stage"] = _part(document, "zero_optimization").get("stage", 0)
    training = _taken(document, train_batch_size="global_batch_size")
    for name in ("bf16", "fp16"):
        if _part(document, name).get("enabled"):
            training["precision"] = name
    interval = pipeline.get("activation_checkpoint_interval", 0)
    recompute = {"policy": "uniform", "num_layers": interval} if interval else {"policy": "none"}
    return Configuration("deepspeed", layout, training, recompute)


def _of_torchtitan(document: Mapping[str, Any]) -> Configuration:
    parallelism, training = _part(document, "parallelism"), _part(document, "training")
    layout = _taken(
        parallelism,
        tensor_parallel_degree="tensor_parallel",
        pipeline_parallel_degree="pipeline_parallel",
        context_parallel_degree="context_parallel",
        expert_parallel_degree="expert_parallel",
    ) | _torchtitan_pipeline(parallelism, training)
    layout["zero_stage"] = 0 if parallelism.get("data_parallel_shard_degree", -1) == 1 else 1
    run = _taken(training, global_batch_size="global_batch_size", seq_len="sequence_length")
    recompute, setting = _torchtitan_recompute(_part(document, "activation_checkpoint"))
    return Configuration("torchtitan", layout, run, recompute, setting=setting)


_TORCHTITAN_SCHEDULES = {"1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "1f1b"}


def _torchtitan_pipeline(parallelism: Mapping[str, Any], training: Mapping[str, Any]) -> Fields:
    """Micro-batches and schedule; a pipeline's micro-batch is one sequence unless it says so."""
    if parallelism.get("pipeline_parallel_degree", 1) == 1:
        return _taken(training, local_batch_size="micro_batch_size")
    name = parallelism.get("pipeline_parallel_schedule", "1F1B")
    if not isinstance(name, str) or name not in _TORCHTITAN_SCHEDULES:
        raise BadRequest(
            f"torchtitan's schedule {str(name)[:40]!r} is not evaluated here.",
            field="configuration",
            hint=f"Give one of {', '.join(_TORCHTITAN_SCHEDULES)}.",
        )
    found: Fields = {"micro_batch_size": 1, "schedule": _TORCHTITAN_SCHEDULES[name]}
    if name != "Interleaved1F1B":
        found["virtual_stages"] = 1
    elif "pipeline_parallel_layers_per_stage" not in parallelism:
        found["virtual_stages"] = 2
    size = _taken(parallelism, pipeline_parallel_microbatch_size="micro_batch_size")
    return found | size


def _torchtitan_recompute(part: Mapping[str, Any]) -> tuple[Fields, Fields]:
    """A policy, or a setting where no policy is like it: by operator, or every n-th layer."""
    mode, option = part.get("mode", "none"), str(part.get("selective_ac_option", "2"))
    if mode in ("full", "none"):
        return {"policy": mode}, {}
    if mode == "selective" and option == "op":
        return {"policy": "none"}, {"activation_checkpoint": "SelectiveAC"}
    if mode == "selective" and option.isascii() and option.isdigit() and int(option) > 0:
        if int(option) == 1:
            return {"policy": "full"}, {}
        return {"policy": "none"}, {"activation_checkpoint": "FullAC", "every": int(option)}
    raise BadRequest(
        f"torchtitan's activation checkpoint {str(mode)[:40]!r} with {option[:40]!r} is not known.",
        field="configuration",
        hint="Give full, none, or selective with op or a number of layers.",
    )


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _taken(part: Mapping[str, Any], **names: str) -> Fields:
    """Fields under their names in a request; absent, null and negative ones left out."""
    found = {}
    for theirs, ours in names.items():
        value = part.get(theirs)
        if value is None or (isinstance(value, int) and value < 0):
            continue
        if isinstance(value, list | Mapping):
            raise BadRequest(
                f"{theirs} is not one value.", field="configuration", hint="Give what runs today."
            )
        found[ours] = value
    return found
