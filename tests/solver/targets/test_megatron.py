"""Plans in Megatron-LM's flags, and in words where flags cannot say them."""

from __future__ import annotations

from typing import Any

import pytest

from solver.errors import BadRequest
from solver.plan import BlockRecompute, Export, LayoutAnswer, Stage, StageMemory
from solver.planner import plan
from solver.request import PlanRequest
from solver.targets.megatron import megatron_export
from solver.targets.written import written
from tests.solver.requests import small

LAYOUT: dict[str, Any] = {
    "tensor_parallel": 4,
    "pipeline_parallel": 3,
    "context_parallel": 1,
    "expert_parallel": 1,
    "data_parallel": 2,
    "virtual_stages": 1,
    "micro_batch_size": 2,
    "sequence_parallel": True,
    "zero_stage": 1,
    "schedule": "1f1b",
}

KEPT: list[str] = []
SOME = ["norm"]


def stage(index: int, layers: int, recompute: list[tuple[int, list[str], bool]]) -> Stage:
    """A stage of a three-stage model with so many layers, recomputed as (count, names, whole)."""
    blocks = [("layer", layers)] if layers else []
    entries = [
        BlockRecompute(block="layer", count=count, recomputed=names, whole=whole)
        for count, names, whole in recompute
    ]
    if index == 0:
        blocks = [("embedding", 1), *blocks]
        entries.append(BlockRecompute(block="embedding", count=1, recomputed=[]))
    if index == 2:
        blocks = [*blocks, ("head", 1)]
        entries.append(BlockRecompute(block="head", count=1, recomputed=[]))
    memory = StageMemory(weights=0.0, gradients=0.0, optimizer=0.0, activations=0.0, recompute=0.0)
    return Stage(
        index=index,
        blocks=blocks,
        forward_seconds=1.0,
        backward_seconds=2.0,
        recompute_seconds=0.0,
        in_flight=1,
        peak_memory_bytes=0.0,
        memory=memory,
        recompute=entries,
    )


def export(stages: list[Stage], **layout: Any) -> Export:
    return megatron_export(LayoutAnswer(**{**LAYOUT, **layout}), stages, 64)


def evenly(recompute: list[tuple[int, list[str], bool]]) -> list[Stage]:
    return [stage(index, 4, recompute) for index in range(3)]


def test_a_plan_without_recompute_is_said_exactly() -> None:
    found = export(evenly([(4, KEPT, False)]))
    assert found.exact
    assert found.notes == []
    assert found.arguments == [
        "--tensor-model-parallel-size 4",
        "--pipeline-model-parallel-size 3",
        "--context-parallel-size 1",
        "--micro-batch-size 2",
        "--global-batch-size 64",
        "--sequence-parallel",
        "--use-distributed-optimizer",
        "--pipeline-model-parallel-layout 'Et*4|t*4|t*4L'",
    ]


def test_an_uneven_split_is_said_by_the_layout() -> None:
    stages = [
        stage(index, layers, [(layers, KEPT, False)]) for index, layers in enumerate((3, 5, 1))
    ]
    assert "--pipeline-model-parallel-layout 'Et*3|t*5|tL'" in export(stages).arguments


def test_equal_stages_in_a_row_are_folded() -> None:
    middle = [stage(1, 4, [(4, KEPT, False)])] * 5
    stages = [stage(0, 4, [(4, KEPT, False)]), *middle, stage(2, 3, [(3, KEPT, False)])]
    flags = export(stages, pipeline_parallel=7).arguments
    assert "--pipeline-model-parallel-layout 'Et*4|(t*4|)*5t*3L'" in flags


def test_one_stage_needs_no_layout() -> None:
    flags = export([stage(1, 4, [(4, KEPT, False)])], pipeline_parallel=1).arguments
    assert not any("layout" in flag for flag in flags)


def test_full_recompute_everywhere_is_uniform() -> None:
    found = export(evenly([(4, SOME, True)]))
    assert found.exact
    assert found.arguments[-3:] == [
        "--recompute-granularity full",
        "--recompute-method uniform",
        "--recompute-num-layers 1",
    ]


def test_the_first_layers_of_every_stage_are_block() -> None:
    found = export(evenly([(3, SOME, True), (1, KEPT, False)]))
    assert found.exact
    assert found.arguments[-2:] == [
        "--recompute-method block",
        "--recompute-num-layers 3",
    ]


def test_block_may_exceed_a_short_stage() -> None:
    stages = [
        stage(0, 5, [(3, SOME, True), (2, KEPT, False)]),
        stage(1, 5, [(3, SOME, True), (2, KEPT, False)]),
        stage(2, 2, [(2, SOME, True)]),
    ]
    assert export(stages).arguments[-1] == "--recompute-num-layers 3"


def test_stages_that_differ_are_said_in_words() -> None:
    stages = [
        stage(0, 4, [(3, SOME, True), (1, KEPT, False)]),
        stage(1, 4, [(1, SOME, True), (3, KEPT, False)]),
        stage(2, 4, [(4, KEPT, False)]),
    ]
    found = export(stages)
    assert not found.exact
    assert not any("--recompute" in flag for flag in found.arguments)
    assert [note.split(":")[1].strip() for note in found.notes] == ["stage 0", "stage 1"]
    assert "3 x layer recompute norm" in found.notes[0]


def test_choices_within_a_layer_are_said_in_words() -> None:
    found = export(evenly([(4, SOME, False)]))
    assert not found.exact
    assert len(found.notes) == 3


@pytest.mark.parametrize(
    ("layout", "flag"),
    [
        ({"expert_parallel": 8}, "--expert-model-parallel-size 8"),
        ({"context_parallel": 2}, "--context-parallel-size 2"),
        ({"context_parallel": 2, "context_method": "all-gather"}, "--cp-comm-type all_gather"),
        ({"context_parallel": 2, "context_method": "all-to-all"}, "--cp-comm-type a2a"),
        ({"rank_order": "tp-cp-ep-pp-dp"}, "--use-tp-pp-dp-mapping"),
        ({"zero_stage": 2}, "--data-parallel-sharding-strategy optim_grads"),
        ({"zero_stage": 3}, "--data-parallel-sharding-strategy optim_grads_params"),
    ],
)
def test_layouts_have_their_flags(layout: dict[str, Any], flag: str) -> None:
    assert flag in export(evenly([(4, KEPT, False)]), **layout).arguments


def test_what_is_off_has_no_flag() -> None:
    flags = export(evenly([(4, KEPT, False)]), sequence_parallel=False, zero_stage=0).arguments
    assert not {"--sequence-parallel", "--use-distributed-optimizer"} & set(flags)


def test_a_schedule_that_megatron_lacks_is_said() -> None:
    found = export(evenly([(4, KEPT, False)]), schedule="gpipe")
    assert not found.exact
    assert found.notes == ["Megatron-LM has no GPipe schedule; it would run 1F1B."]


def test_a_stage_with_only_the_embedding_is_warned_of() -> None:
    stages = [stage(0, 0, []), stage(1, 4, [(4, KEPT, False)]), stage(2, 4, [(4, KEPT, False)])]
    found = export(stages)
    assert "--pipeline-model-parallel-layout 'E|t*4|t*4L'" in found.arguments
    assert any("hang" in note for note in found.notes)


def test_plans_under_full_recompute_come_out_as_flags() -> None:
    found = plan(small(recompute={"policy": "full"}))
    (said,) = found.exports
    assert said.framework == "megatron-lm"
    assert said.exact
    assert "--recompute-method uniform" in said.arguments


EXPERTS: dict[str, Any] = {
    "model": {"name": "qwen-3-30b-a3b"},
    "cluster": {"device": "H100-SXM5-80GB", "nodes": 2, "devices_per_node": 8},
    "training": {
        "sequence_length": 4096,
        "global_batch_size": 32,
        "overlap_expert_parallel": True,
    },
    "layout": {
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "expert_parallel": 16,
        "data_parallel": 16,
        "micro_batch_size": 1,
    },
}


@pytest.mark.parametrize("framework", ["megatron-lm", "megatron-bridge"])
def test_an_overlapped_exchange_is_said_and_never_repeated(framework: str) -> None:
    request = PlanRequest.model_validate({**EXPERTS, "target": {"framework": framework}})
    found = plan(request)
    said = written(found, framework, request.training)
    assert "overlap" in said.text + " ".join(said.arguments)
    for stage in found.stages:
        for entry in stage.recompute:
            assert not entry.whole
            assert "expert_dispatch" not in entry.recomputed


def test_a_framework_that_cannot_overlap_the_exchange_says_so() -> None:
    with pytest.raises(BadRequest) as caught:
        plan(PlanRequest.model_validate({**EXPERTS, "target": {"framework": "torchtitan"}}))
    assert caught.value.field == "training.overlap_expert_parallel"
