"""Parameter counts equal what is published, to the last parameter."""

from __future__ import annotations

import pytest

from solver.workload.catalogue import architecture
from solver.workload.parameters import (
    active_parameters,
    embedding_parameters,
    head_parameters,
    multi_token_prediction_parameters,
    parameters,
)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # Counts that the models' safetensors indices and cards state.
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-13b", 13_015_864_320),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
        ("llama-3.2-1b", 1_235_814_400),
        ("qwen-2.5-7b", 7_615_616_512),
        ("qwen-3-8b", 8_190_735_360),
        ("qwen-3-30b-a3b", 30_532_122_624),
        ("mistral-7b", 7_241_732_096),
        ("mixtral-8x7b", 46_702_792_704),
        ("gemma-2-9b", 9_241_705_984),
        ("gemma-2-27b", 27_227_128_320),
        ("gpt-2", 124_439_808),
        ("gpt-2-xl", 1_557_611_200),
        ("gpt-neox-20b", 20_554_567_680),
        ("bloom-176b", 176_247_271_424),
        ("deepseek-v2-lite", 15_706_484_224),
        ("deepseek-v3", 671_026_419_200),
        ("gpt-oss-20b", 20_914_757_184),
        ("gpt-oss-120b", 116_829_156_672),
    ],
)
def test_counts_equal_the_published_ones_exactly(name: str, published: int) -> None:
    assert parameters(architecture(name)) == published


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        # Megatron-LM's tables; Brown et al. 2020.
        ("gpt-3-175b", 174.6),
        ("megatron-gpt-22b", 22.1),
        ("megatron-gpt-145b", 145.6),
        ("megatron-gpt-530b", 529.6),
        ("megatron-gpt-1t", 1008.0),
    ],
)
def test_counts_round_to_those_of_the_papers(name: str, billions: float) -> None:
    assert round(parameters(architecture(name)) / 1e9, 1) == billions


@pytest.mark.parametrize(
    ("name", "billions"),
    [("mixtral-8x7b", 12.9), ("deepseek-v3", 37.6), ("qwen-3-30b-a3b", 3.4), ("gpt-oss-20b", 4.2)],
)
def test_a_token_passes_only_the_experts_it_visits(name: str, billions: float) -> None:
    assert round(active_parameters(architecture(name)) / 1e9, 1) == billions


def test_a_dense_model_is_active_as_a_whole() -> None:
    llama = architecture("llama-3.1-8b")
    assert active_parameters(llama) == parameters(llama)


def test_a_tied_head_has_only_its_norm() -> None:
    assert head_parameters(architecture("gpt-2")) == 2 * 768
    assert head_parameters(architecture("llama-3.1-8b")) == 4096 * (128_256 + 1)
    assert embedding_parameters(architecture("gpt-2")) == 768 * (50_257 + 1024)


def test_multi_token_prediction_adds_what_deepseek_states() -> None:
    # Model card: 14B in the MTP module, of which embedding (0.9B) and head (0.9B) are shared.
    added = multi_token_prediction_parameters(architecture("deepseek-v3"))
    assert added == pytest.approx(11.5e9, rel=0.02)
    assert multi_token_prediction_parameters(architecture("llama-3.1-8b")) == 0
