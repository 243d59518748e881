"""What is written for DeepSpeed, read by its own configuration and its PipelineModule."""

from __future__ import annotations

import importlib
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from solver.question import only_layout, question
from solver.request import PlanRequest
from solver.targets.deepspeed import LAYER_CLASS, METHODS, balanced, splits_by_method, uniform
from tests.solver.targets.plans import expected_layers, made, text_of

deepspeed = pytest.importorskip("deepspeed", reason="needs DeepSpeed: make frameworks")

import torch  # noqa: E402
from deepspeed.pipe import LayerSpec, PipelineModule  # noqa: E402
from deepspeed.runtime import utils  # noqa: E402
from deepspeed.runtime.config import DeepSpeedConfig  # noqa: E402

DEVICES = 4
VOCABULARY, HIDDEN = 128_256, 2048
SMALLER = 1024
LAYER_PARAMETERS = 60_821_504 // SMALLER
"""Of Llama 3.2 1B, whose blocks are built at a 1024th of their size."""


class Embedding(torch.nn.Module):
    """A module of so many parameters."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(parameters))


class Head(Embedding):
    """One more of its kind."""


class TransformerLayer(Embedding):
    """A layer, by the name that the export gives its class."""


@pytest.fixture(scope="module", autouse=True)
def _one_of_four_processes() -> Iterator[None]:
    """This process is the first of four whose messages go nowhere."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    environment = {
        "RANK": "0",
        "WORLD_SIZE": f"{DEVICES}",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        # Its kernel for processes of one machine would be compiled here.
        backend = importlib.import_module("deepspeed.comm.torch")
        patched.setattr(backend, "build_shm_op", lambda: None)
        torch.distributed.init_process_group("fake", rank=0, world_size=DEVICES, store=FakeStore())
        deepspeed.init_distributed(dist_backend="fake", auto_mpi_discovery=False)
        yield
        torch.distributed.destroy_process_group()


def pipeline(layers: int, partition: str, interval: int) -> Any:
    """The pipeline that the export's words make of the model's list of layers."""
    assert TransformerLayer.__name__ == LAYER_CLASS
    ends = VOCABULARY * HIDDEN // SMALLER
    return PipelineModule(
        [
            LayerSpec(Embedding, ends),
            *(LayerSpec(TransformerLayer, LAYER_PARAMETERS) for _ in range(layers)),
            LayerSpec(Head, ends + HIDDEN // SMALLER),
        ],
        num_stages=DEVICES,
        partition_method=partition,
        activation_checkpoint_interval=interval,
        checkpointable_layers=[LAYER_CLASS],
    )


def layers_of_parts(parts: list[int]) -> list[int]:
    """Layers on every stage, the ends apart."""
    last = int(parts[-1]) - 1
    held = [range(int(a), int(b)) for a, b in itertools.pairwise(parts)]
    return [sum(0 < number < last for number in stage) for stage in held]


def test_a_file_is_accepted_and_makes_the_stages_of_the_plan() -> None:
    document = json.loads(text_of("deepspeed"))
    said = document["pipeline"]
    built = pipeline(16, said["partition"], said["activation_checkpoint_interval"])
    assert layers_of_parts(built.parts) == expected_layers("deepspeed")
    read = DeepSpeedConfig(document, mpu=built.mpu())
    plan = made("deepspeed")
    assert plan.layout is not None
    assert read.train_batch_size == 32
    assert read.train_micro_batch_size_per_gpu == plan.layout.micro_batch_size
    assert read.gradient_accumulation_steps == plan.micro_batches
    assert read.zero_config.stage == plan.layout.zero_stage
    assert read.pipeline["activation_checkpoint_interval"] == built.activation_checkpoint_interval


@pytest.mark.parametrize("layers", [16, 18, 23])
def test_every_method_splits_as_deepspeed_does(layers: int) -> None:
    request = PlanRequest.model_validate(
        {
            "model": {
                "huggingface": {
                    "model_type": "llama",
                    "hidden_size": 2048,
                    "intermediate_size": 8192,
                    "num_hidden_layers": layers,
                    "num_attention_heads": 32,
                    "num_key_value_heads": 8,
                    "vocab_size": VOCABULARY,
                }
            },
            "cluster": {"device": "RTX4090", "nodes": 1, "devices_per_node": 4},
            "training": {"sequence_length": 4096, "global_batch_size": 32},
            "layout": {"tensor_parallel": 1, "pipeline_parallel": 4, "micro_batch_size": 1},
        }
    )
    asked = question(request)
    splits = splits_by_method(asked.costs(only_layout(asked)), DEVICES)
    for method in METHODS:
        parts = [int(edge) for edge in pipeline(layers, method, 1).parts]
        if method in splits:
            assert [start for start, _ in splits[method]] == parts[:-1]
        else:
            assert len(set(parts)) <= DEVICES, "only splits with an empty stage are left out"


def test_the_divisions_are_deepspeeds_on_any_list() -> None:
    rng = random.Random(7)
    for _ in range(200):
        length, parts = rng.randint(1, 12), rng.randint(1, 5)
        weights = [float(rng.choice([0, 1, 1, 2, 5, rng.randint(1, 9)])) for _ in range(length)]
        theirs = [int(edge) for edge in utils.partition_balanced(weights, parts)]
        assert balanced(weights, parts) == theirs, (weights, parts)
        assert uniform(length, parts) == utils.partition_uniform(length, parts) or length < parts


def test_a_group_with_an_end_of_the_model_keeps_everything() -> None:
    built = pipeline(16, "uniform", 3)
    names = [type(layer).__name__ for layer in built.forward_funcs]
    assert names[0] == "Embedding"
    built._precompute_checkpointable_values()
    groups = [names[start : start + 3] for start in range(0, len(names), 3)]
    assert built.is_checkpointable_results == ["Embedding" not in group for group in groups]
