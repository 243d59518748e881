"""What a team runs today, read from its framework's file and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.importing import ImportRequest, imported, in_words, study_of
from service.problems import ProblemError
from service.reading import validate
from solver.errors import BadRequest
from solver.plan import Evaluation
from solver.planner import evaluate
from solver.projections.settled import under_setting
from solver.question import question
from solver.targets.registry import target_named
from solver.workload.configurations import read_configuration

CLUSTER = {"cluster": {"device": "RTX4090", "nodes": 1, "devices_per_node": 4}}
NAMED: dict[str, Any] = CLUSTER | {
    "model": {"name": "llama-3.2-1b"},
    "training": {"sequence_length": 4096},
}
FLAGS = """#!/bin/bash
# a launch script
torchrun pretrain_gpt.py \\
  --num-layers 16 --hidden-size 2048 --num-attention-heads 32 --seq-length 4096 \\
  --max-position-embeddings 4096 --vocab-size 50304 --bf16 --untie-embeddings-and-output-weights \\
  --micro-batch-size 1 --global-batch-size 16 --pipeline-model-parallel-size 4 \\
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"""
FILES = {
    "megatron-lm": (FLAGS, CLUSTER),
    "megatron-bridge": (
        "model:\n  pipeline_model_parallel_size: 4\n  tensor_model_parallel_size: 1\n"
        "  recompute_granularity: full\n  recompute_method: uniform\n"
        "  recompute_num_layers: 1\n"
        "train: {global_batch_size: 16, micro_batch_size: 1}\n",
        NAMED,
    ),
    "deepspeed": (
        '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,'
        ' "zero_optimization": {"stage": 1}, "bf16": {"enabled": true},'
        ' "pipeline": {"stages": 4, "activation_checkpoint_interval": 1}}',
        NAMED | {"layout": {"tensor_parallel": 1}},
    ),
    "torchtitan": (
        "[parallelism]\npipeline_parallel_degree = 4\ntensor_parallel_degree = 1\n"
        "[training]\nlocal_batch_size = 1\nglobal_batch_size = 16\nseq_len = 4096\n"
        '[activation_checkpoint]\nmode = "full"\n',
        NAMED,
    ),
}


@pytest.mark.parametrize("framework", FILES)
def test_what_runs_today_is_never_faster_than_the_best_for_its_framework(framework: str) -> None:
    found = imported(*FILES[framework])
    assert found.framework == framework
    assert found.best.iteration_seconds is not None
    assert found.best.restriction is not None
    assert found.best.restriction.framework == framework
    if found.yours.fits:
        assert found.best.iteration_seconds <= found.yours.iteration_seconds * (1 + 1e-9)
    free = found.best.restriction.iteration_seconds_free
    assert free is not None
    assert free <= found.best.iteration_seconds * (1 + 1e-9)
    assert "Yours: " in in_words(found)


def test_the_flags_that_change_are_told() -> None:
    found = imported(*FILES["megatron-lm"])
    assert any(line.startswith("--recompute-granularity full") for line in found.given_up)
    assert found.best.exports[0].arguments
    assert set(found.taken_up) <= set(found.best.exports[0].arguments)


def test_a_file_of_no_framework_is_refused() -> None:
    with pytest.raises(BadRequest):
        read_configuration("nothing to see")
    with pytest.raises(BadRequest):
        read_configuration('[parallelism]\n[activation_checkpoint]\nmode = "memory_budget"\n')


TITAN = FILES["torchtitan"][0].replace('mode = "full"\n', "")


@pytest.mark.parametrize("option", ["op", "2"])
def test_torchtitans_selective_recompute_is_between_all_and_nothing(option: str) -> None:
    middle, full, nothing = (
        yours(TITAN + words)
        for words in (
            f'mode = "selective"\nselective_ac_option = "{option}"\n',
            'mode = "full"\n',
            'mode = "none"\n',
        )
    )
    assert nothing.iteration_seconds < middle.iteration_seconds < full.iteration_seconds
    kept = [[stage.kept_bytes for stage in one.stages] for one in (full, middle, nothing)]
    assert all(a < b < c for a, b, c in zip(*kept, strict=True))


def test_torchtitans_pipeline_is_read_as_it_runs() -> None:
    """Its local batch is all micro-batches of a replica; interleaving has two parts a rank."""
    more = 'pipeline_parallel_schedule = "Interleaved1F1B"\npipeline_parallel_microbatch_size = 2\n'
    text = TITAN.replace("[training]", f"{more}[training]").replace(
        "batch_size = 1\n", "batch_size = 8\n"
    )
    found = read_configuration(text).layout
    assert (found["micro_batch_size"], found["virtual_stages"]) == (2, 2)
    assert read_configuration(TITAN).layout["micro_batch_size"] == 1


def yours(text: str) -> Evaluation:
    study = study_of(validate(ImportRequest, NAMED | {"configuration": text}))
    target = target_named("torchtitan")
    if not study.setting:
        return evaluate(study.today)
    return under_setting(study.today, target, study.setting, "configuration")


@pytest.mark.parametrize(
    "text",
    [
        TITAN.replace("pipeline_parallel_degree = 4", 'pipeline_parallel_degree = "four"'),
        TITAN.replace("tensor_parallel_degree = 1", "tensor_parallel_degree = [1]"),
        TITAN + 'mode = "selective"\nselective_ac_option = "0"\n',
        TITAN + 'mode = ["full"]\n',
        TITAN.replace("[training]", 'pipeline_parallel_schedule = "ZBVZeroBubble"\n[training]'),
        FILES["megatron-bridge"][0].replace("pipeline_model_parallel_size: 4", "x: {y: [}"),
        FILES["megatron-bridge"][0].replace("recompute_num_layers: 1", "recompute_num_layers: -3"),
        FILES["megatron-bridge"][0].replace("method: uniform", "method: all"),
        FILES["deepspeed"][0].replace('"stages": 4', '"stages": "auto"'),
        FILES["deepspeed"][0].replace('"stage": 1', '"stage": {}'),
        FLAGS.replace("--num-layers 16", "--num-layers sixteen"),
        FLAGS.replace("--pipeline-model-parallel-size 4", "--pipeline-model-parallel-size"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_words(text: str) -> None:
    base = CLUSTER if text.startswith("#!") else NAMED
    with pytest.raises((BadRequest, ProblemError)) as error:
        question(study_of(validate(ImportRequest, base | {"configuration": text})).today)
    assert len(str(error.value)) > 10


def test_the_command_line_compares(tmp_path: Path) -> None:
    import json

    file, base = tmp_path / "run.sh", tmp_path / "cluster.json"
    file.write_text(FLAGS)
    base.write_text(json.dumps(CLUSTER))
    done = CliRunner().invoke(app, ["import", str(file), "--request", str(base)])
    assert done.exit_code == 0, done.output
    assert "Best for Megatron-LM" in done.output
