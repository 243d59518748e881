"""What is written for a framework is read back: every layer where the plan has it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml

from solver.errors import UnknownName
from solver.plan import Plan
from solver.planner import evaluate
from solver.request import Policy, Recompute
from solver.targets.launch import Launcher, launch, placement
from solver.targets.registry import TARGETS, target_named
from solver.targets.written import planned, written
from solver.workload.megatron import read_megatron_args
from tests.solver.targets.plans import (
    expected_layers,
    interleaved,
    interleaved_for,
    interleaved_layers,
    made,
    request,
    text_of,
)

MODEL = "--num-layers 16 --hidden-size 2048 --num-attention-heads 32 --seq-length 4096 "
MODEL += "--max-position-embeddings 4096 --vocab-size 128256 --bf16"


@pytest.mark.parametrize("framework", ["megatron-lm", "mindspeed"])
def test_flags_hold_the_stages_and_the_setting_of_the_plan(framework: str) -> None:
    flags = text_of(framework).replace("\\\n", " ")
    run = read_megatron_args(f"{MODEL} {flags}")
    assert [stage.layers for stage in run.stages] == expected_layers(framework)
    setting = made(framework).restriction
    assert setting is not None
    said = setting.setting
    if "recompute_num_layers" in said:
        assert run.recompute["num_layers"] == said["recompute_num_layers"]
        assert run.recompute["policy"] == said["recompute_method"]
    assert made(framework).exports[0].arguments == shlex_lines(text_of(framework))


def shlex_lines(text: str) -> list[str]:
    return [line.removesuffix(" \\") for line in text.splitlines()]


def test_a_bridge_file_holds_the_stages_of_the_plan() -> None:
    document = yaml.safe_load(text_of("megatron-bridge"))
    layout = document["model"]["pipeline_model_parallel_layout"]
    pipeline = "--pipeline-model-parallel-size 4 --untie-embeddings-and-output-weights"
    run = read_megatron_args(f"{MODEL} {pipeline} --pipeline-model-parallel-layout '{layout}'")
    assert [stage.layers for stage in run.stages] == expected_layers("megatron-bridge")
    assert document["train"] == {"global_batch_size": 32, "micro_batch_size": 2}


def test_a_mindformers_file_holds_every_layer_once() -> None:
    document = yaml.safe_load(text_of("mindformers"))
    ranges = document["parallelism"]["pipeline_parallel_layers_per_stage"]
    layers = [numbers(text.split(",")) for text in ranges]
    assert [len(held) for held in layers] == expected_layers("mindformers")
    assert [layer for held in layers for layer in held] == list(range(16))
    recompute = document.get("recompute", {})
    whole = numbers(recompute.get("full_recompute_layer", []))
    partly = [n for ranges in recompute.get("select_module", {}).values() for n in numbers(ranges)]
    entries = [e for stage in made("mindformers").stages for e in stage.recompute]
    assert len(whole) == sum(entry.count for entry in entries if entry.whole)
    assert bool(partly) == any(entry.recomputed and not entry.whole for entry in entries)


def test_a_graph_mode_file_has_the_offsets_and_counts_of_the_plan() -> None:
    document = yaml.safe_load(text_of("mindformers-graph"))
    (offsets,) = document["model"]["model_config"]["offset"]
    assert [16 // 4 + offset for offset in offsets] == expected_layers("mindformers-graph")
    assert sum(offsets) == 16 % 4
    (counts,) = document["recompute_config"]["recompute"]
    stages = made("mindformers-graph").stages
    assert counts == [sum(e.count for e in stage.recompute if e.whole) for stage in stages]
    assert any(counts)


def test_a_graph_mode_file_has_a_row_for_every_chunk() -> None:
    document = yaml.safe_load(written(interleaved(), "mindformers-graph").text)
    offsets = document["model"]["model_config"]["offset"]
    assert [7 // 4 + offset for row in offsets for offset in row] == interleaved_layers()
    counts = document["recompute_config"]["recompute"]
    assert [len(row) for row in (*offsets, *counts)] == [2] * 4
    assert document["parallel"]["pipeline_config"]["pipeline_interleave"]


def numbers(spans: list[str]) -> list[int]:
    found = []
    for span in map(str, spans):
        first, _, last = span.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def test_a_galvatron_file_has_an_entry_for_every_layer() -> None:
    document = json.loads(text_of("galvatron"))
    assert listed(document["pp_division"]) == expected_layers("galvatron")
    entries = [e for stage in made("galvatron").stages for e in stage.recompute]
    whole = sum(entry.count for entry in entries if entry.whole)
    assert sum(listed(document["checkpoint"])) == whole
    for field in ("tp_sizes_enc", "dp_types_enc", "use_sp", "checkpoint"):
        assert len(listed(document[field])) == 16


def listed(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def test_a_colossalai_file_has_the_lists_of_the_plan() -> None:
    text = text_of("colossalai")
    ast.parse(text)
    layers = re.search(r"num_layers_per_stage=(\[[\d, ]+\])", text)
    assert layers is not None
    assert json.loads(layers[1]) == expected_layers("colossalai")
    counts = re.search(r"num_ckpt_layers_per_stage=(\[[\d, ]+\])", text)
    stages = made("colossalai").stages
    whole = [sum(e.count for e in stage.recompute if e.whole) for stage in stages]
    assert (json.loads(counts[1]) if counts else [0] * 4) == whole


def test_a_torchtitan_file_names_every_module_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Config:
        activation_checkpoint: Any = ...

        def __init__(self) -> None:
            self.parallelism, self.training = Fields(), Fields()

    class Fields:
        module_fqns_per_model_part: list[list[str]]

    for name in ("torchtitan", "torchtitan.distributed"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    policies = SimpleNamespace(FullAC=MagicMock(), SelectiveAC=MagicMock())
    monkeypatch.setitem(sys.modules, "torchtitan.distributed.activation_checkpoint", policies)
    space: dict[str, Any] = {}
    exec(text_of("torchtitan"), space)
    config = space["apply"](Config())
    parts = config.parallelism.module_fqns_per_model_part
    layers = [sum(name.startswith("layers.") for name in part) for part in parts]
    assert layers == expected_layers("torchtitan")
    named = [name for part in parts for name in part]
    assert named == ["tok_embeddings", *(f"layers.{n}" for n in range(16)), "norm", "lm_head"]


def test_a_deepspeed_file_says_which_method_makes_the_split() -> None:
    document = json.loads(text_of("deepspeed"))
    batch = document["train_micro_batch_size_per_gpu"] * document["gradient_accumulation_steps"]
    assert batch == document["train_batch_size"] == 32
    restriction = made("deepspeed").restriction
    assert restriction is not None
    assert document["pipeline"]["partition"] == restriction.setting["partition_method"]


@pytest.mark.parametrize("framework", TARGETS)
@pytest.mark.parametrize("launcher", Launcher)
def test_a_job_starts_as_many_processes_as_the_plan_has_devices(
    framework: str, launcher: Launcher
) -> None:
    found = made("megatron-lm")
    export = written(found, framework)
    made_launch = launch(launcher, planned(found, framework), export, devices_per_node=2)
    text = made_launch.text
    ascend = framework.startswith("mind")
    if launcher is Launcher.VOLCANO:
        *_, job = yaml.safe_load_all(text)
        assert job["spec"]["tasks"][0]["replicas"] == job["spec"]["minAvailable"] == 2
        container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        resource = "huawei.com/Ascend910" if ascend else "nvidia.com/gpu"
        assert container["resources"]["limits"] == {resource: 2}
        text = container["command"][2]
    elif launcher is Launcher.SLURM:
        assert "#SBATCH --nodes=2" in text
        assert ("--gres=npu:2" if ascend else "--gpus-per-node=2") in text
    if framework.startswith("mindformers"):
        assert "msrun --worker_num 4 --local_worker_num 2" in text
    else:
        assert "--nnodes 2 --nproc-per-node 2" in text
    shell = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert shell.returncode == 0, shell.stderr


@pytest.mark.parametrize(
    ("framework", "method", "word"),
    [
        ("megatron-bridge", "all-to-all", "cp_comm_type: a2a"),
        ("mindspeed", "ring", "--context-parallel-algo megatron_cp_algo"),
        ("mindspeed", "all-to-all", "--context-parallel-algo ulysses_cp_algo"),
        ("mindspeed", "all-gather", ""),
        ("mindformers", "all-to-all", ""),
        ("colossalai", "all-to-all", "sequence_parallelism_mode='all_to_all'"),
        ("torchtitan", "all-gather", "context_parallel_rotate_method = 'allgather'"),
        ("torchtitan", "all-to-all", ""),
    ],
)
def test_frameworks_exchange_split_sequences_as_planned_or_say_that_they_do_not(
    framework: str, method: str, word: str
) -> None:
    found = made("megatron-lm")
    assert found.layout is not None
    split = {"context_parallel": 2, "context_method": method, "sequence_parallel": False}
    changed = found.model_copy(update={"layout": found.layout.model_copy(update=split)})
    export = written(changed, framework)
    said = any(f"does not exchange split sequences by {method}" in note for note in export.notes)
    assert said == (not word)
    assert word in export.text


def test_ranks_of_pipelines_that_stand_together_are_told_so() -> None:
    found = made("megatron-lm")
    assert found.layout is not None
    several = found.layout.model_copy(update={"data_parallel": 2})
    found = found.model_copy(update={"layout": several})
    inside = several.model_copy(update={"rank_order": "tp-cp-ep-pp-dp"})
    changed = found.model_copy(update={"layout": inside})
    words = placement(planned(changed, "megatron-lm"), 2, 2)
    assert "consecutive ranks hold a pipeline" in words
    assert "dist:" in written(changed, "megatron-bridge").text
    assert "dp_outside=False" in written(found, "colossalai").text
    assert "dp_outside" not in written(changed, "colossalai").text


def test_what_a_configuration_does_instead_of_the_plan_is_said() -> None:
    """A plan of chosen tensors: each framework's words name what they lose, and claim no more."""
    found = tensors_alone()
    for framework in TARGETS:
        export = written(found, framework)
        assert export.exact == (framework == "pytorch"), framework
        assert bool(export.notes) or export.exact
    deepspeed = written(found, "deepspeed")
    assert not any("come out as" in note for note in deepspeed.notes)
    (said,) = [n for n in written(found, "mindformers").notes if "whole modules" in n]
    assert "mlp of layers" in said


@cache
def tensors_alone() -> Plan:
    """Every layer runs one of its tensors again."""
    asked = request("pytorch").model_copy(update={"target": None})
    whole = evaluate(asked.model_copy(update={"recompute": Recompute(policy=Policy.NONE)}))
    stages = [
        stage.model_copy(
            update={
                "recompute": [
                    entry.model_copy(update={"recomputed": ["feed_forward_activation"]})
                    if entry.block == "layer"
                    else entry
                    for entry in stage.recompute
                ]
            }
        )
        for stage in whole.stages
    ]
    return made("pytorch").model_copy(update={"stages": stages, "restriction": None})


def test_mindspeed_is_told_to_recompute_in_advance_where_a_chunk_holds_one_layer() -> None:
    """Its own even split, which it takes without a layout; faster than what runs on demand."""
    found = interleaved_for("mindspeed", 20.0, layers=4)
    on_demand = interleaved_for("mindspeed", 20.0, layers=4, overlap="off")
    assert found.iteration_seconds is not None
    assert on_demand.iteration_seconds is not None
    assert found.iteration_seconds < on_demand.iteration_seconds
    assert [stage.recomputes_ahead for stage in found.stages] == [True, True, True, False]
    export = found.exports[0]
    assert export.exact
    assert "--recompute-in-advance" in export.arguments
    assert "--num-layers-per-virtual-pipeline-stage 1" in export.arguments
    assert not any("layout" in flag for flag in export.arguments)
    assert not any("advance" in flag for flag in on_demand.exports[0].arguments)


def test_an_unknown_framework_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName) as error:
        target_named("megatron")
    assert "megatron-lm" in (error.value.hint or "")


def test_a_plan_for_one_framework_says_what_another_cannot_do() -> None:
    found = made("mindformers")
    if any(e.recomputed and not e.whole for stage in found.stages for e in stage.recompute):
        assert not written(found, "galvatron").exact
