"""What is written for torchtitan, read by its own configuration and its splitting of models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from solver.targets.written import planned, written
from tests.solver.targets.plans import (
    expected_layers,
    interleaved,
    interleaved_layers,
    made,
    request,
    text_of,
)

pipelines = pytest.importorskip(
    "torchtitan.distributed.pipeline_parallel", reason="needs torchtitan: make frameworks"
)

from torch import nn  # noqa: E402
from torch.distributed.pipelining.schedules import (  # noqa: E402
    PipelineScheduleMulti,
    get_schedule_class,
)
from torchtitan.config.configs import ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.distributed.activation_checkpoint import FullAC  # noqa: E402
from torchtitan.distributed.parallel_dims import ParallelDims  # noqa: E402


def applied(text: str) -> Any:
    """The parts of a Trainer.Config that a plan sets; a field that is not there is an error."""
    config = SimpleNamespace(
        parallelism=ParallelismConfig(), training=TrainingConfig(), activation_checkpoint=...
    )
    space: dict[str, Any] = {}
    exec(text, space)
    return space["apply"](config)


class Model(nn.Module):
    """The modules of torchtitan's models, by their names."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(4, 2)
        self.layers = nn.ModuleDict({str(number): nn.Linear(2, 2) for number in range(layers)})
        self.norm = nn.LayerNorm(2)
        self.lm_head = nn.Linear(2, 4)


def check_split(parallelism: Any, devices: int, layers: list[int]) -> None:
    parts = parallelism.module_fqns_per_model_part
    whole = Model(sum(layers))
    stages = [pipelines._split_module(whole, names) for names in parts]
    assert [len(stage.layers) for stage in stages] == layers
    numbers = [name for stage in stages for name in stage.layers]
    assert numbers == [str(number) for number in range(sum(layers))]
    for number, stage in enumerate(stages):
        assert (stage.tok_embeddings is not None) == (number == 0)
        assert (stage.lm_head is not None) == (number == len(stages) - 1)
    for device in range(devices):
        held = pipelines._get_pp_rank_to_stage_indices_mapping(
            device, devices, parallelism.pipeline_parallel_schedule, len(stages)
        )
        assert held == tuple(range(device, len(stages), devices))


def test_a_plan_is_accepted_and_splits_the_model_as_planned() -> None:
    config = applied(text_of("torchtitan"))
    check_split(config.parallelism, 4, expected_layers("torchtitan"))


def test_several_chunks_of_a_device_are_split_as_planned() -> None:
    config = applied(written(interleaved(), "torchtitan").text)
    assert issubclass(
        get_schedule_class(config.parallelism.pipeline_parallel_schedule), PipelineScheduleMulti
    )
    check_split(config.parallelism, 2, interleaved_layers())


def test_sizes_batches_and_policy_are_those_of_the_plan() -> None:
    config, plan = applied(text_of("torchtitan")), made("torchtitan")
    layout = plan.layout
    assert layout is not None
    assert plan.restriction is not None
    devices = planned(plan, "torchtitan", request("torchtitan").training).devices
    ParallelDims.from_config(config.parallelism, devices)
    get_schedule_class(config.parallelism.pipeline_parallel_schedule)
    size = config.parallelism.pipeline_parallel_microbatch_size
    assert size == layout.micro_batch_size
    assert config.training.local_batch_size // size == plan.micro_batches
    assert config.training.global_batch_size == 32
    assert config.training.seq_len == 4096
    full = plan.restriction.setting["activation_checkpoint"] == "FullAC"
    assert isinstance(config.activation_checkpoint, FullAC.Config) == full
