"""What is written for Megatron, read by Megatron-Core's own layout and configuration checks."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from solver.question import only_layout, question
from solver.request import PlanRequest
from solver.targets.registry import TARGETS
from solver.targets.written import written
from tests.solver.targets.plans import (
    expected_layers,
    interleaved,
    interleaved_layers,
    made,
    text_of,
)

configurations = pytest.importorskip(
    "megatron.core.transformer.transformer_config", reason="needs Megatron-Core: make frameworks"
)

from megatron.core import parallel_state  # noqa: E402
from megatron.core.transformer import transformer_block  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MODEL: dict[str, Any] = {"num_layers": 16, "hidden_size": 2048, "num_attention_heads": 32}

NOT_OF_THE_MODEL = {
    "micro_batch_size",
    "global_batch_size",
    "use_distributed_optimizer",
    "recompute_norm",
    "recompute_activation_function",
}
"""Flags of the training loop, of the optimizer, and MindSpeed's own."""


@pytest.fixture(autouse=True)
def _no_virtual_pipeline() -> Iterator[None]:
    yield
    parallel_state.set_virtual_pipeline_model_parallel_world_size(None)


def configured(**fields: Any) -> Any:
    """Megatron-Core's configuration, which checks itself."""
    import torch

    kind = configurations.TransformerConfig
    if fields.get("multi_latent_attention"):
        kind = configurations.MLATransformerConfig
    return kind(**{"pipeline_dtype": torch.bfloat16, **fields})


def of_flags(text: str) -> dict[str, Any]:
    """The flags as fields of the configuration; every one of them has to be known."""
    fields: dict[str, Any] = {}
    name = ""
    for word in shlex.split(text.replace("\\\n", " ")):
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            fields[name] = True
        elif fields[name] is True:
            fields[name] = int(word) if word.isdigit() else word
        else:
            fields[name] = [*_listed(fields[name]), word]
    if "recompute_modules" in fields:
        fields["recompute_modules"] = _listed(fields["recompute_modules"])
    known = {f.name for f in dataclasses.fields(configurations.TransformerConfig)}
    assert set(fields) - known <= NOT_OF_THE_MODEL
    return {name: value for name, value in fields.items() if name in known}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def layers_built(config: Any) -> list[int]:
    """Layers that Megatron-Core builds on every (virtual) stage, in model order."""
    chunks = config.virtual_pipeline_model_parallel_size
    parallel_state.set_virtual_pipeline_model_parallel_world_size(chunks)
    return [
        config.pipeline_model_parallel_layout.get_num_layers_to_build(
            vp_stage=chunk, pp_rank=device
        )
        for chunk in range(chunks or 1)
        for device in range(config.pipeline_model_parallel_size)
    ]


@pytest.mark.parametrize("framework", ["megatron-lm", "mindspeed"])
def test_flags_build_the_stages_of_the_plan(framework: str) -> None:
    config = configured(**MODEL, **of_flags(written(made("megatron-lm"), framework).text))
    assert layers_built(config) == expected_layers("megatron-lm")


def test_a_bridge_file_builds_the_stages_of_the_plan() -> None:
    document = yaml.safe_load(written(made("megatron-lm"), "megatron-bridge").text)
    config = configured(**MODEL, **document["model"])
    assert layers_built(config) == expected_layers("megatron-lm")


@pytest.mark.parametrize("framework", ["megatron-lm", "mindspeed"])
def test_flags_build_several_chunks_of_a_device(framework: str) -> None:
    seven = MODEL | {"num_layers": 7}
    config = configured(**seven, **of_flags(written(interleaved(), framework).text))
    assert config.virtual_pipeline_model_parallel_size == 2
    assert layers_built(config) == interleaved_layers()


def test_a_bridge_file_builds_several_chunks_of_a_device() -> None:
    document = yaml.safe_load(written(interleaved(), "megatron-bridge").text)
    config = configured(**MODEL | {"num_layers": 7}, **document["model"])
    assert layers_built(config) == interleaved_layers()


def test_the_setting_of_the_plan_is_what_megatron_reads() -> None:
    restriction = made("megatron-lm").restriction
    assert restriction is not None
    config = configured(**MODEL, **of_flags(text_of("megatron-lm")))
    assert restriction.setting
    for field, value in restriction.setting.items():
        assert getattr(config, field) == value


MODELS: dict[str, dict[str, Any]] = {
    "llama-3.2-1b": {},
    "mixtral-8x7b": {"num_moe_experts": 8, "moe_grouped_gemm": True},
    "deepseek-v2-lite": {
        "num_moe_experts": 64,
        "moe_grouped_gemm": True,
        "multi_latent_attention": True,
        "moe_shared_expert_intermediate_size": 2816,
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_every_recompute_setting_that_may_be_written_is_accepted(name: str) -> None:
    request = PlanRequest.model_validate(
        {
            "model": {"name": name},
            "cluster": {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 8},
            "training": {"sequence_length": 4096, "global_batch_size": 32},
            "layout": {
                "tensor_parallel": 2,
                "pipeline_parallel": 4,
                "expert_parallel": 1,
                "micro_batch_size": 1,
                "virtual_stages": 1,
                "schedule": "1f1b",
            },
        }
    )
    asked = question(request)
    layout = only_layout(asked)
    settings = [
        dict(regime.setting)
        for regime in TARGETS["megatron-lm"].regimes(asked.costs(layout), layout)
    ]
    assert {} in settings
    named = {module for setting in settings for module in setting.get("recompute_modules", ())}
    assert named >= {"layernorm"}
    for setting in settings:
        configured(**MODEL, **MODELS[name], **_lists(setting))


def _lists(setting: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in setting.items()}


def test_what_would_hang_or_do_nothing_is_refused_by_megatron_as_well() -> None:
    with pytest.raises(ValueError, match="recompute_method"):
        configured(**MODEL, recompute_granularity="full", recompute_num_layers=1)
    with pytest.raises(ValueError, match="recompute_num_layers"):
        configured(**MODEL, recompute_granularity="full", recompute_method="block")
    with pytest.raises(ValueError, match="recompute_num_layers"):
        configured(**MODEL, recompute_granularity="selective", recompute_num_layers=1)


def test_thirty_layers_on_four_stages_are_refused_or_all_of_them_built() -> None:
    """Megatron-LM issue 1304."""
    thirty = MODEL | {"num_layers": 30, "pipeline_model_parallel_size": 4}
    with pytest.raises(AssertionError):
        transformer_block.get_num_layers_to_build(configured(**thirty), pp_rank=0)
    with pytest.raises(AssertionError, match="28"):
        configured(**thirty, pipeline_model_parallel_layout="Et*7|t*7|t*7|t*7L")
    config = configured(**thirty, pipeline_model_parallel_layout="Et*7|t*8|t*8|t*7L")
    assert sum(layers_built(config)) == 30


def test_forty_eight_layers_on_eight_devices_have_no_four_chunks() -> None:
    """Megatron-Bridge pull request 4604."""
    sizes = MODEL | {"num_layers": 48, "pipeline_model_parallel_size": 8}
    four = configured(**sizes, virtual_pipeline_model_parallel_size=4)
    with pytest.raises(AssertionError):
        transformer_block.get_num_layers_to_build(four, vp_stage=0, pp_rank=0)
    three = configured(**sizes, virtual_pipeline_model_parallel_size=3)
    assert transformer_block.get_num_layers_to_build(three, vp_stage=0, pp_rank=0) == 2
