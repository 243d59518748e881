"""What is written for MindFormers, read by its own configuration, layer ranges and recompute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from solver.plan import Plan
from solver.targets.planned import layers_of
from solver.targets.written import written
from tests.frameworks.stand_ins import modules
from tests.solver.targets.plans import interleaved_for, made, request

pytest.importorskip("regex", reason="needs MindFormers: make frameworks")

ABSENT = (
    "mindspore",
    "mindspore.ops",
    "hyper_parallel",
    "hyper_parallel.core",
    "hyper_parallel.core.activation_checkpoint",
    "mindformers.core.context",
    "mindformers.modules.transformer",
    "mindformers.tools.check_rules",
    "mindformers.tools.logger",
)


@pytest.fixture(scope="module")
def theirs() -> Iterator[list[ModuleType]]:
    """Its configuration, layer ranges and recompute in PyNative mode; its layers in graph mode."""
    names = (
        "pynative.config.config",
        "pynative.distributed.pipeline_parallel",
        "pynative.distributed.activation_checkpoint",
        "parallel_core.training_graph.transformer.utils",
    )
    with modules("mindformers", names, ABSENT) as found:
        yield found


@pytest.fixture
def pynative(theirs: list[ModuleType]) -> list[ModuleType]:
    return theirs[:3]


@pytest.fixture
def graph(theirs: list[ModuleType]) -> ModuleType:
    return theirs[3]


def check_pynative(theirs: list[ModuleType], plan: Plan, text: str) -> None:
    config, pipeline, checkpoint = theirs
    document = yaml.safe_load(text)
    assert set(document) <= {"training", "parallelism", "recompute"}
    training = config.TrainingConfig(**document["training"])
    parallelism = config.ParallelismConfig(**document["parallelism"])
    recompute = config.RecomputeConfig(**document.get("recompute", {}))
    assert plan.layout is not None
    replicas = plan.layout.data_parallel * training.local_batch_size
    assert training.global_batch_size // replicas == plan.micro_batches
    layers = [layers_of(stage) for stage in plan.stages]
    edges = [0, *itertools.accumulate(layers)]
    setting = pipeline.PpLayerSetting(sum(layers), parallelism)
    assert setting.num_virtual_stages == len(layers)
    for stage in range(len(layers)):
        assert setting.get_layer_range(stage) == (edges[stage], edges[stage + 1] - 1)
    checkpoint._validate_recompute_config(recompute, SimpleNamespace(enable=False), sum(layers))
    whole = sum(e.count for stage in plan.stages for e in stage.recompute if e.whole)
    assert _numbers(recompute.full_recompute_layer or []) == whole
    schedule = pipeline._infer_schedule_type(parallelism)
    assert schedule == ("interleaved_1f1b" if plan.layout.virtual_stages > 1 else "1f1b")
    assert schedule in pipeline._SCHEDULE_REGISTRY


def _numbers(spans: list[str]) -> int:
    ends = [span.split("-") for span in spans]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def test_pynative_builds_the_stages_of_the_plan(pynative: list[ModuleType]) -> None:
    plan = made("mindformers")
    export = written(plan, "mindformers", request("mindformers").training)
    check_pynative(pynative, plan, export.text)


def test_pynative_builds_the_chunks_of_an_interleaved_plan(pynative: list[ModuleType]) -> None:
    plan = interleaved_for("mindformers", 30.0)
    check_pynative(pynative, plan, written(plan, "mindformers").text)


def test_tensors_without_sequences_are_refused_by_them_as_well(
    pynative: list[ModuleType],
) -> None:
    with pytest.raises(ValueError, match="sequence_parallel"):
        pynative[0].ParallelismConfig(tensor_parallel=2, sequence_parallel=False)


def layer_setting(theirs: ModuleType, document: Any) -> Any:
    """Its layer setting, on the offsets and counts of a file."""
    config = document["model"]["model_config"]
    scheduler = document["parallel"]["pipeline_config"]
    context = {
        "pipeline_interleave": scheduler["pipeline_interleave"],
        "pipeline_scheduler": scheduler["pipeline_scheduler"],
    }
    theirs.ms.get_auto_parallel_context = context.__getitem__
    theirs.is_legacy_model = lambda: True
    nothing: dict[str, Any] = {}
    recompute = SimpleNamespace(
        recompute=document["recompute_config"]["recompute"],
        select_recompute=nothing,
        select_comm_recompute=nothing,
        select_recompute_exclude=nothing,
        select_comm_recompute_exclude=nothing,
    )
    parallel = SimpleNamespace(
        swap=SimpleNamespace(swap=False),
        recompute=recompute,
        pipeline_stage=document["parallel_config"]["pipeline_stage"],
        gradient_aggregation_group=1,
    )
    return theirs.LayerSetting(
        config["num_layers"], config["offset"], parallel, config["pp_interleave_num"]
    )


@pytest.mark.parametrize("chunks", [1, 2])
def test_graph_mode_builds_the_stages_of_the_plan(graph: ModuleType, chunks: int) -> None:
    plan = made("mindformers-graph") if chunks == 1 else interleaved_for("mindformers-graph", 28.0)
    found = layer_setting(graph, yaml.safe_load(written(plan, "mindformers-graph").text))
    flat = [int(count) for row in found.layer_list for count in row]
    assert flat == [layers_of(stage) for stage in plan.stages]
    first = [count for row in found.layer_recompute for count in row]
    assert first == [sum(e.count for e in s.recompute if e.whole) for s in plan.stages]
    assert any(first)
    assert found.pp_interleave_num == chunks


def test_offsets_that_lose_layers_are_refused_by_them(graph: ModuleType) -> None:
    document = yaml.safe_load(written(made("mindformers-graph"), "mindformers-graph").text)
    (offsets,) = document["model"]["model_config"]["offset"]
    document["model"]["model_config"]["offset"] = [[offsets[0] - 1, *offsets[1:]]]
    with pytest.raises(ValueError, match="offset"):
        layer_setting(graph, document)
