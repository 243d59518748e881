"""What is written for ColossalAI, read by its own stage manager and its checkpoint lists."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from solver.plan import Plan
from solver.targets.colossalai import even_layers
from solver.targets.planned import layers_of
from solver.targets.registry import TARGETS
from solver.targets.written import planned, written
from tests.frameworks.stand_ins import folder_of, modules
from tests.solver.targets.plans import interleaved_for, made, request

pytest.importorskip("torch", reason="needs PyTorch: make pytorch")


@pytest.fixture(scope="module")
def theirs() -> Iterator[tuple[ModuleType, ModuleType]]:
    """Its stage manager and its lists; of its mesh of processes only the shape is asked."""
    names = ("pipeline.stage_manager", "shardformer.shard.grad_ckpt_config")
    with modules("colossalai", names, absent=["colossalai.cluster"]) as (manager, lists):
        yield manager, lists


def arguments(text: str, plugin: str = "HybridParallelPlugin") -> dict[str, Any]:
    """The plugin's arguments; every one is written as a constant, but the lists' own object."""
    (call,) = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == plugin
    ]
    found: dict[str, Any] = {}
    for keyword in call.keywords:
        assert keyword.arg is not None
        if isinstance(keyword.value, ast.Call):
            (counts,) = keyword.value.keywords
            assert counts.arg == "num_ckpt_layers_per_stage"
            found[counts.arg] = ast.literal_eval(counts.value)
        else:
            found[keyword.arg] = ast.literal_eval(keyword.value)
    return found


def manager_of(theirs: tuple[ModuleType, ModuleType], said: dict[str, Any], device: int) -> Any:
    """The stage manager of one device, as the plugin makes it."""
    mesh = MagicMock()
    mesh.size.return_value = said["pp_size"]
    mesh.coordinate.side_effect = lambda axis=None: (device,) if axis is None else device
    return theirs[0].PipelineStageManager(
        mesh,
        pipeline_axis=0,
        enable_interleave=said["pp_style"] == "interleaved",
        num_model_chunks=said.get("num_model_chunks", 1),
        num_layers_per_stage=said.get("num_layers_per_stage"),
    )


def check(theirs: tuple[ModuleType, ModuleType], plan: Plan, said: dict[str, Any]) -> None:
    """Every stage holds the plan's layers and checkpoints the plan's number of them."""
    devices, chunks = said["pp_size"], said.get("num_model_chunks", 1)
    layers = [layers_of(stage) for stage in plan.stages]
    counts = theirs[1].PipelineGradientCheckpointConfig(
        num_ckpt_layers_per_stage=said.get("num_ckpt_layers_per_stage", [0] * len(layers))
    )
    edges = [0, *itertools.accumulate(layers)]
    for device in range(devices):
        manager = manager_of(theirs, said, device)
        found = manager.get_stage_index(manager.distribute_layers(sum(layers)))
        for chunk, held in enumerate(found if chunks > 1 else [found]):
            stage = chunk * devices + device
            assert [int(edge) for edge in held] == [edges[stage], edges[stage + 1]]
            assert counts.get_num_ckpt_layers(
                stage=device,
                num_stages=devices,
                num_layers=layers[stage],
                model_chunk_id=chunk,
                num_model_chunks=chunks,
            ) == sum(entry.count for entry in plan.stages[stage].recompute if entry.whole)


def test_every_stage_holds_and_checkpoints_what_the_plan_says(theirs: Any) -> None:
    export = written(made("colossalai"), "colossalai", request("colossalai").training)
    said = arguments(export.text)
    assert sum(said["num_ckpt_layers_per_stage"]) > 0
    check(theirs, made("colossalai"), said)


def test_so_does_every_chunk_of_an_interleaved_plan(theirs: Any) -> None:
    plan = interleaved_for("colossalai", 30.0)
    export = written(plan, "colossalai")
    assert export.exact
    said = arguments(export.text)
    assert said["num_model_chunks"] == 2
    check(theirs, plan, said)


@pytest.mark.parametrize("experts", [1, 2])
def test_every_argument_is_one_of_the_plugin_for_it(experts: int) -> None:
    """The plugins themselves need a GPU's libraries; their signatures are read."""
    asked = planned(made("colossalai"), "colossalai", request("colossalai").training)
    layout = asked.layout.model_copy(
        update={"data_parallel": 2, "expert_parallel": experts, "tensor_parallel": 2}
        | {"sequence_parallel": True}
    )
    text = TARGETS["colossalai"].export(replace(asked, layout=layout)).text
    name = "MoeHybridParallelPlugin" if experts > 1 else "HybridParallelPlugin"
    file = "moe_hybrid_parallel_plugin.py" if experts > 1 else "hybrid_parallel_plugin.py"
    source = (folder_of("colossalai") / "booster" / "plugin" / file).read_text("utf-8")
    (plugin,) = [n for n in ast.parse(source).body if getattr(n, "name", "") == name]
    assert isinstance(plugin, ast.ClassDef)
    (init,) = [n for n in plugin.body if getattr(n, "name", "") == "__init__"]
    assert isinstance(init, ast.FunctionDef)
    said = arguments(text, name)
    known = {argument.arg for argument in init.args.args} | {"num_ckpt_layers_per_stage"}
    assert set(said) <= known
    assert ("ep_size" in said) == (experts > 1)


def test_the_even_split_is_their_own(theirs: Any) -> None:
    for stages, layers in itertools.product((2, 4, 6, 8), range(2, 31)):
        manager = SimpleNamespace(num_layers_per_stage=None)
        distribute = theirs[0].PipelineStageManager.distribute_layers
        assert even_layers(layers, stages) == distribute(manager, layers, stages, 1)


def test_an_uneven_interleaved_list_is_refused_by_them(theirs: Any) -> None:
    said = {"pp_size": 2, "pp_style": "interleaved", "num_model_chunks": 2}
    with pytest.raises(AssertionError):
        manager_of(theirs, said | {"num_layers_per_stage": [1, 2, 2, 2]}, 0)
