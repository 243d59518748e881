"""Configurations that Transformers makes are read as the models that Transformers builds."""

from __future__ import annotations

from typing import Any

import pytest

from solver.workload.families import READERS
from solver.workload.huggingface import architecture_from_huggingface
from solver.workload.parameters import parameters

transformers = pytest.importorskip("transformers", reason="needs Transformers: make frameworks")

import torch  # noqa: E402

ELSEWHERE = {"kimi_k2", "gemma3"}
"""Kimi K2 is DeepSeek-V3's code outside the library; Gemma 3 with its tower is gemma3_text here."""

NOT_DEFAULT: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "ministral": {"head_dim": 128},
}
"""Fields without which the library's own default does not build."""


@pytest.mark.parametrize("family", sorted(set(READERS) - ELSEWHERE))
def test_a_configuration_is_the_model_that_transformers_builds(family: str) -> None:
    config = transformers.AutoConfig.for_model(
        family, num_hidden_layers=3, **NOT_DEFAULT.get(family, {})
    )
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    read = architecture_from_huggingface(config.to_dict())
    assert read.num_layers == 3
    assert parameters(read) == sum(parameter.numel() for parameter in model.parameters())
