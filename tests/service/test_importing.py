"""What a team runs today, read from its framework's file and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.importing import imported, in_words
from solver.errors import BadRequest
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
        read_configuration('[parallelism]\n[activation_checkpoint]\nmode = "selective"\n')


def test_the_command_line_compares(tmp_path: Path) -> None:
    import json

    file, base = tmp_path / "run.sh", tmp_path / "cluster.json"
    file.write_text(FLAGS)
    base.write_text(json.dumps(CLUSTER))
    done = CliRunner().invoke(app, ["import", str(file), "--request", str(base)])
    assert done.exit_code == 0, done.output
    assert "Best for Megatron-LM" in done.output
