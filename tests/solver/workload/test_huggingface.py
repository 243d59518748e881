"""Reading config.json files: the traps of each family, and errors that name the field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.errors import BadRequest, StagecutError, UnsupportedModel
from solver.workload.architecture import (
    Architecture,
    Attention,
    FeedForward,
    LatentAttention,
    MixtureOfExperts,
    Norm,
    Positions,
)
from solver.workload.huggingface import architecture_from_huggingface
from tests.solver.published import published_requests

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "vocab_size": 50257,
}
QWEN_MOE: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 1000,
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 2,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "vocab_size": 129280,
}
NEOX: dict[str, Any] = {
    "model_type": "gpt_neox",
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "num_hidden_layers": 44,
    "num_attention_heads": 64,
    "vocab_size": 50432,
}
GEMMA: dict[str, Any] = {**LLAMA, "model_type": "gemma"}


def read(config: dict[str, Any], /, **changes: Any) -> Architecture:
    merged = {**config, **changes}
    return architecture_from_huggingface(
        {name: value for name, value in merged.items() if value is not ...}
    )


def only_attention(architecture: Architecture) -> Attention:
    ((layer, _),) = architecture.layers
    assert isinstance(layer.attention, Attention)
    return layer.attention


def only_mlp(architecture: Architecture) -> FeedForward:
    ((layer, _),) = architecture.layers
    assert isinstance(layer.feed_forward, FeedForward)
    return layer.feed_forward


def windows(architecture: Architecture) -> list[int | None]:
    found: list[int | None] = []
    for layer, count in architecture.layers:
        assert isinstance(layer.attention, Attention)
        found += [layer.attention.window] * count
    return found


def sparse_layers(architecture: Architecture) -> list[bool]:
    return [
        isinstance(layer.feed_forward, MixtureOfExperts)
        for layer, count in architecture.layers
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("config", "tied"),
    [
        (LLAMA, False),
        ({**LLAMA, "model_type": "mistral"}, False),
        ({**LLAMA, "model_type": "qwen2"}, False),
        ({**LLAMA, "model_type": "qwen3"}, False),
        (GPT2, True),
        (NEOX, False),
        (GEMMA, True),
        ({**LLAMA, "model_type": "gemma2"}, True),
        (QWEN_MOE, False),
        (DEEPSEEK, False),
    ],
)
def test_weight_tying_defaults_as_the_family_documents_and_can_be_stated(
    config: dict[str, Any], tied: bool
) -> None:
    assert read(config).tied_embeddings is tied
    assert read(config, tie_word_embeddings=None).tied_embeddings is tied
    assert read(config, tie_word_embeddings=not tied).tied_embeddings is not tied


def test_an_explicit_head_dim_wins_over_hidden_size_by_heads() -> None:
    assert only_attention(read(LLAMA)).head_dim == 128
    assert only_attention(read(LLAMA, head_dim=64)).head_dim == 64
    assert only_attention(read(LLAMA, head_dim=None)).head_dim == 128
    # Qwen 3 0.6B: 16 heads of 128 on a hidden size of 1024.
    qwen = {**LLAMA, "model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16}
    assert only_attention(read(qwen)).head_dim == 128


def test_key_value_heads_default_to_the_query_heads_and_must_divide_them() -> None:
    assert only_attention(read(LLAMA, num_key_value_heads=...)).key_value_heads == 32
    assert only_attention(read(GPT2, num_key_value_heads=4)).key_value_heads == 4
    with pytest.raises(BadRequest) as error:
        read(LLAMA, num_key_value_heads=5)
    assert error.value.field == "model.huggingface.num_key_value_heads"


@pytest.mark.parametrize(
    ("config", "gated", "activation"),
    [
        (LLAMA, True, "silu"),
        (GEMMA, True, "gelu"),
        (GPT2, False, "gelu"),
        ({**GPT2, "activation_function": "relu2"}, False, "relu2"),
        (NEOX, False, "gelu"),
    ],
)
def test_gated_families_have_three_matrices_whatever_their_activation(
    config: dict[str, Any], gated: bool, activation: str
) -> None:
    mlp = only_mlp(read(config))
    assert (mlp.gated, mlp.activation) == (gated, activation)


def test_biases_follow_the_family() -> None:
    qwen = only_attention(read(LLAMA, model_type="qwen2"))
    assert (qwen.query_key_value_bias, qwen.output_bias) == (True, False)
    llama = only_attention(read(LLAMA))
    assert (llama.query_key_value_bias, llama.output_bias) == (False, False)
    biased = read(LLAMA, attention_bias=True, mlp_bias=True)
    assert only_attention(biased).output_bias
    assert only_mlp(biased).bias


def test_gpt2_null_n_inner_is_four_times_the_width_and_names_have_aliases() -> None:
    assert only_mlp(read(GPT2, n_inner=None)).hidden == 3072
    assert only_mlp(read(GPT2, n_inner=2048)).hidden == 2048
    renamed = {
        "model_type": "gpt2",
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "max_position_embeddings": 1024,
        "vocab_size": 50257,
    }
    assert read(renamed) == read(GPT2)
    assert read(GPT2).positions is Positions.LEARNED
    assert read(GPT2).layers[0][0].norm is Norm.LAYER
    assert read(GPT2).layers[0][0].hidden_dropout == 0.1


def test_neox_computes_attention_and_mlp_in_parallel_unless_told_not_to() -> None:
    assert read(NEOX).layers[0][0].parallel_residual
    assert not read(NEOX, use_parallel_residual=False).layers[0][0].parallel_residual


def test_sliding_windows_follow_the_family_or_layer_types() -> None:
    gemma2 = {**LLAMA, "model_type": "gemma2", "num_hidden_layers": 4}
    assert windows(read(gemma2)) == [4096, None, 4096, None]
    gemma3 = {**LLAMA, "model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 512}
    assert windows(read(gemma3)) == [512] * 5 + [None, 512]
    mistral = {**LLAMA, "model_type": "mistral", "num_hidden_layers": 2}
    assert windows(read(mistral, sliding_window=4096)) == [4096, 4096]
    assert windows(read(mistral, sliding_window=None)) == [None, None]
    qwen = {**LLAMA, "model_type": "qwen2", "num_hidden_layers": 4, "sliding_window": 1024}
    assert windows(read(qwen, use_sliding_window=False)) == [None] * 4
    assert windows(read(qwen, use_sliding_window=True, max_window_layers=3)) == [None] * 3 + [1024]
    stated = ["full_attention", "sliding_attention", "full_attention", "full_attention"]
    assert windows(read(gemma2, layer_types=stated)) == [None, 4096, None, None]


def test_layer_types_must_be_known_and_as_many_as_layers() -> None:
    gemma2 = {**LLAMA, "model_type": "gemma2", "num_hidden_layers": 2}
    with pytest.raises(BadRequest) as error:
        read(gemma2, layer_types=["full_attention"])
    assert error.value.field == "model.huggingface.layer_types"
    with pytest.raises(UnsupportedModel) as error:
        read(gemma2, layer_types=["full_attention", "linear_attention"])
    assert error.value.field == "model.huggingface.layer_types[1]"


def test_gemma3_text_decoder_is_read_from_inside_a_multimodal_file() -> None:
    config = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
        },
        "vision_config": {"hidden_size": 1152},
    }
    architecture = read(config)
    attention = architecture.layers[0][0].attention
    assert isinstance(attention, Attention)
    assert (attention.heads, attention.key_value_heads, attention.head_dim) == (8, 4, 256)
    assert (architecture.vocabulary_size, architecture.layers[0][0].norms) == (262_208, 4)
    config["text_config"] = {**config["text_config"], "hidden_size": "wide"}  # type: ignore[dict-item]
    with pytest.raises(BadRequest) as error:
        read(config)
    assert error.value.field == "model.huggingface.text_config.hidden_size"


def test_deepseek_has_latent_attention_dense_first_layers_and_shared_experts() -> None:
    architecture = read(DEEPSEEK)
    (dense, dense_count), (sparse, sparse_count) = architecture.layers
    assert (dense_count, sparse_count) == (3, 58)
    assert isinstance(dense.feed_forward, FeedForward)
    assert dense.feed_forward.hidden == 18432
    assert isinstance(sparse.feed_forward, MixtureOfExperts)
    assert sparse.feed_forward.shared_hidden == 4096
    assert isinstance(sparse.attention, LatentAttention)
    assert architecture.multi_token_prediction == 0
    assert read(DEEPSEEK, num_nextn_predict_layers=1).multi_token_prediction == 1
    uncompressed = read(DEEPSEEK, q_lora_rank=None).layers[0][0].attention
    assert isinstance(uncompressed, LatentAttention)
    assert uncompressed.query_rank is None


def groups(architecture: Architecture) -> tuple[int, int]:
    experts = architecture.layers[-1][0].feed_forward
    assert isinstance(experts, MixtureOfExperts)
    return experts.groups, experts.groups_per_token


def test_deepseek_routes_a_token_to_some_groups_of_experts() -> None:
    assert groups(read(DEEPSEEK)) == (8, 4)
    assert groups(read(DEEPSEEK, n_group=1, topk_group=1)) == (1, 1)
    assert groups(read(DEEPSEEK, n_routed_experts=9)) == (1, 1)
    second = {"model_type": "deepseek_v2", "n_group": 8, "topk_group": 3}
    assert groups(read(DEEPSEEK, **second, topk_method="group_limited_greedy")) == (8, 3)
    assert groups(read(DEEPSEEK, **second, topk_method="greedy")) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_group": 7}, "n_group"),
        ({"topk_group": 9}, "topk_group"),
        ({"n_group": 64, "topk_group": 1}, "topk_group"),
    ],
)
def test_groups_that_a_router_cannot_pick_from_are_refused(
    changes: dict[str, int], field: str
) -> None:
    with pytest.raises(BadRequest) as error:
        read(DEEPSEEK, **changes)
    assert error.value.field == f"model.huggingface.{field}"


def test_deepseek_without_dense_layers_need_not_state_their_width() -> None:
    architecture = read(DEEPSEEK, first_k_dense_replace=0, intermediate_size=...)
    assert sparse_layers(architecture) == [True] * 61


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [True] * 8),
        ({"decoder_sparse_step": 2}, [False, True] * 4),
        ({"mlp_only_layers": [0, 7]}, [False, *[True] * 6, False]),
        ({"decoder_sparse_step": 4, "mlp_only_layers": [3]}, [False] * 7 + [True]),
    ],
)
def test_qwen_moe_layers_are_sparse_by_step_and_list(
    changes: dict[str, Any], expected: list[bool]
) -> None:
    assert sparse_layers(read(QWEN_MOE, **changes)) == expected


def test_mixtral_intermediate_size_is_the_width_of_one_expert() -> None:
    architecture = read(LLAMA, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2)
    ((layer, count),) = architecture.layers
    assert count == 32
    assert isinstance(layer.feed_forward, MixtureOfExperts)
    assert (layer.feed_forward.experts, layer.feed_forward.hidden) == (8, 14336)


@pytest.mark.parametrize("layer", [-1, 8, True, "0"])
def test_mlp_only_layers_must_be_layers(layer: object) -> None:
    with pytest.raises(BadRequest) as error:
        read(QWEN_MOE, mlp_only_layers=[1, layer])
    assert error.value.field == "model.huggingface.mlp_only_layers[1]"


def test_a_token_cannot_visit_more_experts_than_there_are() -> None:
    with pytest.raises(BadRequest) as error:
        read(QWEN_MOE, num_experts_per_tok=17)
    assert error.value.field == "model.huggingface.num_experts_per_tok"


@pytest.mark.parametrize(
    "field",
    ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
)
@pytest.mark.parametrize(
    "value", [..., None, 0, -1, 1.5, "32", True, [1], {}, 10**9, 10**30, float("inf")]
)
def test_a_missing_wrong_or_absurd_size_is_refused_by_its_name(field: str, value: object) -> None:
    with pytest.raises(BadRequest) as error:
        read(LLAMA, **{field: value})
    assert error.value.field == f"model.huggingface.{field}"
    assert len(error.value.detail) < 200


def test_heads_that_do_not_divide_the_width_need_a_head_dim() -> None:
    with pytest.raises(BadRequest) as error:
        read(LLAMA, num_attention_heads=24, num_key_value_heads=8)
    assert error.value.field == "model.huggingface.num_attention_heads"
    assert only_attention(read(LLAMA, num_attention_heads=24, head_dim=128)).head_dim == 128


def test_unknown_families_and_activations_are_named() -> None:
    with pytest.raises(UnsupportedModel) as error:
        read(LLAMA, model_type="lama")
    assert error.value.field == "model.huggingface.model_type"
    assert error.value.hint == "Did you mean llama?"
    with pytest.raises(UnsupportedModel) as error:
        read(LLAMA, hidden_act="mish")
    assert error.value.field == "model.huggingface.hidden_act"


def test_a_missing_family_is_taken_from_the_class_name_or_refused() -> None:
    named = read(LLAMA, model_type=..., architectures=["LlamaForCausalLM"])
    assert named.layers == read(LLAMA).layers
    with pytest.raises(BadRequest) as error:
        read(LLAMA, model_type=...)
    assert error.value.field == "model.huggingface.model_type"


def test_the_name_is_the_path_on_the_hub_where_it_is_stated() -> None:
    assert read(LLAMA, _name_or_path="meta-llama/Llama-3.1-8B").name == "meta-llama/Llama-3.1-8B"
    assert read(LLAMA).name == "llama"


def test_every_published_request_is_read() -> None:
    for request in published_requests():
        assert request.model.huggingface is not None
        architecture = architecture_from_huggingface(request.model.huggingface)
        assert architecture.num_layers >= 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children),
    max_leaves=5,
)


@settings(max_examples=50)
@given(
    st.sampled_from([LLAMA, GPT2, NEOX, GEMMA, QWEN_MOE, DEEPSEEK]),
    st.data(),
)
def test_any_json_in_any_field_is_read_or_refused_by_name(
    config: dict[str, Any], data: st.DataObject
) -> None:
    optional = ["head_dim", "layer_types", "sliding_window", "mlp_only_layers", "text_config"]
    field = data.draw(st.sampled_from([*config, *optional]))
    outcome = read_or_refuse(config, field, data.draw(JSON))
    assert isinstance(outcome, Architecture) or outcome.startswith("model.huggingface")


def test_an_integer_too_long_to_print_is_refused_in_few_words() -> None:
    assert read_or_refuse(LLAMA, "hidden_size", 10**5000) == "model.huggingface.hidden_size"


def read_or_refuse(config: dict[str, Any], field: str, value: object) -> Architecture | str:
    """The architecture, or the field that the refusal names."""
    try:
        return read(config, **{field: value})
    except StagecutError as error:
        return error.field or "no field"
