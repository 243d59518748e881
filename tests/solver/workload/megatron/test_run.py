"""What flags mean: Megatron-LM's defaults, its rules, and what they fill in a request."""

from __future__ import annotations

from typing import Any

import pytest

from solver.errors import BadRequest
from solver.planner import evaluate, plan
from solver.request import PlanRequest, Policy
from solver.workload.architecture import Attention, FeedForward, LatentAttention, MixtureOfExperts
from solver.workload.megatron import completed, read_megatron_args
from solver.workload.parameters import parameters
from tests.solver.workload.megatron.test_flags import SMALL

CLUSTER = {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 8}
BATCH = {"--micro-batch-size": 2, "--global-batch-size": 32}


def _layer(**flags: Any) -> Any:
    given = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    return read_megatron_args({**SMALL, **given}).architecture.layers[0][0]


def test_a_plain_gpt_has_biases_dropout_and_a_tied_table() -> None:
    model = read_megatron_args(SMALL).architecture
    layer, count = model.layers[0]
    assert count == 8
    assert layer.attention == Attention(8, 8, 64, query_key_value_bias=True, output_bias=True)
    assert layer.feed_forward == FeedForward(2048, gated=False, activation="gelu", bias=True)
    assert (layer.hidden_dropout, layer.attention_dropout) == (0.1, 0.1)
    assert model.tied_embeddings
    # 12 h^2 + 13 h per layer, two tables, a last norm (Narayanan et al. 2021, equation 2).
    assert parameters(model) == 8 * (12 * 512**2 + 13 * 512) + (50257 + 1024) * 512 + 2 * 512


def test_swiglu_narrows_the_default_width_to_two_thirds_in_steps_of_64() -> None:
    assert _layer(swiglu=True).feed_forward.hidden == 1344
    assert _layer(swiglu=True, ffn_hidden_size=1000).feed_forward.hidden == 1000


def test_query_groups_and_channels() -> None:
    attention = _layer(group_query_attention=True, num_query_groups=2, kv_channels=128).attention
    assert (attention.key_value_heads, attention.head_dim) == (2, 128)


def test_latent_attention_takes_its_own_widths() -> None:
    attention = _layer(
        multi_latent_attention=True, q_lora_rank=192, kv_lora_rank=64, qk_head_dim=16, v_head_dim=32
    ).attention
    assert attention == LatentAttention(8, 192, 64, 16, 64, 32, query_key_norm=False)


def test_experts_stand_where_the_pattern_says() -> None:
    run = read_megatron_args(
        {
            **SMALL,
            "--num-experts": 4,
            "--moe-ffn-hidden-size": 256,
            "--moe-layer-freq": "([0]*2+[1]*6)",
            "--moe-shared-expert-intermediate-size": 128,
        }
    )
    (dense, first), (sparse, rest) = run.architecture.layers
    assert (first, rest) == (2, 6)
    assert isinstance(dense.feed_forward, FeedForward)
    assert isinstance(sparse.feed_forward, MixtureOfExperts)
    assert (sparse.feed_forward.hidden, sparse.feed_forward.shared_hidden) == (256, 128)


def test_a_router_may_pick_groups_of_experts_first() -> None:
    limited = {"num_experts": 8, "moe_router_num_groups": 4, "moe_router_group_topk": 2}
    found = _layer(**limited, moe_router_topk=4).feed_forward
    assert (found.groups, found.groups_per_token) == (4, 2)
    for flag, wrong in (
        ("moe_router_topk", 5),
        ("moe_router_group_topk", 5),
        ("moe_router_num_groups", 3),
    ):
        with pytest.raises(BadRequest) as error:
            _layer(**{**limited, flag: wrong})
        assert "group" in error.value.detail


@pytest.mark.parametrize(
    ("flags", "blocks"),
    [
        ({"--pipeline-model-parallel-size": 4}, (3, 2, 2, 3)),
        (
            {"--pipeline-model-parallel-size": 2, "--num-layers-per-virtual-pipeline-stage": 2},
            (3, 2, 2, 3),
        ),
        (
            {"--pipeline-model-parallel-size": 2, "--num-virtual-stages-per-pipeline-rank": 4},
            (2, 1, 1, 1, 1, 1, 1, 2),
        ),
        (
            {"--pipeline-model-parallel-size": 3, "--decoder-first-pipeline-num-layers": 2},
            (3, 3, 4),
        ),
        (
            {
                "--pipeline-model-parallel-size": 2,
                "--account-for-embedding-in-pipeline-split": True,
                "--account-for-loss-in-pipeline-split": True,
            },
            (5, 5),
        ),
        (
            {
                "--pipeline-model-parallel-size": 2,
                "--pipeline-model-parallel-layout": "Ett|tttttt|mL",
                "--mtp-num-layers": 1,
            },
            None,
        ),
        (
            {
                "--pipeline-model-parallel-size": 3,
                "--pipeline-model-parallel-layout": "Ett|tttttt|mL",
                "--mtp-num-layers": 1,
            },
            (3, 6, 2),
        ),
    ],
)
def test_the_model_is_divided_as_megatron_divides_it(
    flags: dict[str, Any], blocks: tuple[int, ...] | None
) -> None:
    if blocks is None:
        with pytest.raises(BadRequest):
            read_megatron_args({**SMALL, **flags})
    else:
        stages = read_megatron_args({**SMALL, **flags}).stages
        assert tuple(stage.blocks for stage in stages) == blocks


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        ({"--fp16": True}, "--fp16"),
        ({"--recompute-granularity": "full"}, "--recompute-method"),
        (
            {"--recompute-granularity": "selective", "--recompute-num-layers": 1},
            "--recompute-num-layers",
        ),
        ({"--recompute-modules": "[mlp]"}, "--recompute-modules"),
        ({"--recompute-method": "block"}, "--recompute-method"),
        (
            {"--recompute-granularity": "full", "--recompute-activations": True},
            "--recompute-activations",
        ),
        ({"--expert-model-parallel-size": 2}, "--expert-model-parallel-size"),
        ({"--num-experts": 2, "--moe-router-topk": 4}, "--moe-router-topk"),
        ({"--tensor-model-parallel-size": 3}, "--tensor-model-parallel-size"),
        ({"--pipeline-model-parallel-size": 3}, "--pipeline-model-parallel-size"),
        ({"--num-query-groups": 2}, "--num-query-groups"),
        ({"--seq-length": 2048}, "--max-position-embeddings"),
        ({"--swiglu": True, "--squared-relu": True}, "--squared-relu"),
        (
            {"--multi-latent-attention": True, "--group-query-attention": True},
            "--group-query-attention",
        ),
        ({"--exp-avg-dtype": "bf16"}, "--use-precision-aware-optimizer"),
        (
            {
                "--pipeline-model-parallel-size": 2,
                "--num-layers-per-virtual-pipeline-stage": 2,
                "--num-virtual-stages-per-pipeline-rank": 2,
            },
            "--num-virtual-stages-per-pipeline-rank",
        ),
        (
            {
                "--pipeline-model-parallel-layout": "Et*8L",
                "--account-for-loss-in-pipeline-split": True,
            },
            "--account-for-loss-in-pipeline-split",
        ),
    ],
)
def test_a_contradiction_is_refused_at_its_flag(flags: dict[str, Any], flag: str) -> None:
    with pytest.raises(BadRequest) as error:
        read_megatron_args({**SMALL, **flags})
    assert error.value.field == f"model.megatron_args[{flag}]"


def test_flags_fill_what_the_request_leaves_out() -> None:
    flags = {
        **SMALL,
        **BATCH,
        "--tensor-model-parallel-size": 2,
        "--pipeline-model-parallel-size": 2,
        "--sequence-parallel": True,
        "--use-distributed-optimizer": True,
        "--recompute-activations": True,
        "--attention-backend": "unfused",
    }
    request = PlanRequest.model_validate({"model": {"megatron_args": flags}, "cluster": CLUSTER})
    filled = completed(request, read_megatron_args(flags))
    assert filled.training.sequence_length == 1024
    assert filled.training.attention == "unfused"
    assert filled.layout.tensor_parallel == 2
    assert filled.layout.sequence_parallel is True
    assert filled.layout.zero_stage == 1
    assert filled.recompute.policy is Policy.SELECTIVE
    assert filled.recompute.modules == ["core_attn"]


def test_the_request_wins_over_the_flags() -> None:
    flags = {**SMALL, **BATCH, "--recompute-activations": True}
    request = PlanRequest.model_validate(
        {
            "model": {"megatron_args": flags},
            "cluster": CLUSTER,
            "training": {"global_batch_size": 64},
            "layout": {"pipeline_parallel": 4},
            "recompute": {"policy": "none"},
        }
    )
    filled = completed(request, read_megatron_args(flags))
    assert filled.training.global_batch_size == 64
    assert filled.layout.pipeline_parallel == 4
    assert filled.recompute.policy is Policy.NONE
    assert filled.recompute.modules is None


def test_an_evaluation_holds_the_stages_that_the_flags_spell_out() -> None:
    flags = {
        **SMALL,
        **BATCH,
        "--pipeline-model-parallel-size": 2,
        "--pipeline-model-parallel-layout": "Ettttt|tttL",
        "--frobnicate": True,
    }
    found = evaluate(
        PlanRequest.model_validate({"model": {"megatron_args": flags}, "cluster": CLUSTER})
    )
    assert [stage.blocks for stage in found.stages] == [
        [("embedding", 1), ("layer", 5)],
        [("layer", 3), ("head", 1)],
    ]
    assert any("--frobnicate" in note for note in found.notes)


def test_a_plan_takes_micro_batches_in_the_groups_that_the_flags_give() -> None:
    flags = {
        **SMALL,
        "--micro-batch-size": 1,
        "--global-batch-size": 10,
        "--pipeline-model-parallel-size": 4,
        "--num-layers-per-virtual-pipeline-stage": 1,
        "--microbatch-group-size-per-virtual-pipeline-stage": 5,
    }
    cluster = {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 8}
    found = plan(
        PlanRequest.model_validate({"model": {"megatron_args": flags}, "cluster": cluster})
    )
    assert found.layout is not None
    assert found.layout.interleaving_group == 5
    assert found.micro_batches == 5


@pytest.mark.parametrize(
    ("words", "method"),
    [("p2p", "ring"), ("all_gather", "all-gather"), ("a2a", "all-to-all"), ("a2a+p2p", None)],
)
def test_the_exchange_of_split_sequences_and_the_order_of_ranks_are_read(
    words: str, method: str | None
) -> None:
    flags = {**SMALL, **BATCH, "--context-parallel-size": 2, "--cp-comm-type": words}
    flags["--use-tp-pp-dp-mapping"] = True
    run = read_megatron_args(flags)
    asked = PlanRequest.model_validate({"model": {"megatron_args": flags}, "cluster": CLUSTER})
    layout = completed(asked, run).layout
    assert layout.context_method == method
    assert layout.rank_order == "tp-cp-ep-pp-dp"
