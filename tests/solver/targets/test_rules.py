"""Rules of frameworks whose own code cannot be asked: what is written keeps to them.

Galvatron (core/runtime/hybrid_parallel_config.py and utils/config_utils.py at cea12ff and in its
release 2.4.0) is built from sources that bring a compiler and a package of its tests along;
MindSpeed (features_manager/recompute at 028de58c) is not published.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from solver.plan import Plan
from solver.planner import plan
from solver.question import only_layout, question
from solver.request import PlanRequest
from solver.targets.planned import layers_of
from solver.targets.registry import TARGETS
from solver.targets.written import written
from tests.solver.targets.plans import made, request


def listed(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def read_galvatron(document: dict[str, Any], devices: int) -> list[tuple[int, int]]:
    """(stage, checkpointed) of every layer, after the checks of its reader."""
    depth = document["pp_deg"]
    of_layers = {
        field: listed(document[field])
        for field in ("tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc", "use_sp")
    }
    checkpoint, division = listed(document["checkpoint"]), listed(document["pp_division"])
    assert len(division) == depth
    stages = [stage for stage, layers in enumerate(division) for _ in range(layers)]
    assert {len(entries) for entries in of_layers.values()} == {len(stages)} == {len(checkpoint)}
    each = devices // depth
    assert each * depth == devices
    assert all(1 <= size <= each and each % size == 0 for size in of_layers["tp_sizes_enc"])
    for field in ("tp_consecutive_flags", "dp_types_enc", "use_sp"):
        assert set(of_layers[field]) <= {0, 1}
    assert set(checkpoint) <= {0, 1}
    smallest = min(*of_layers["tp_sizes_enc"], document["vtp"])
    assert document["global_bsz"] % (each // smallest) == 0
    assert document["global_bsz"] // (each // smallest) % document["chunks"] == 0
    assert document["pipeline_type"] in ("gpipe", "pipedream_flush")
    assert document["default_dp_type"] in ("ddp", "zero2", "zero3")
    return list(zip(stages, checkpoint, strict=True))


def check_galvatron(found: Plan, document: dict[str, Any], devices: int) -> None:
    layers = read_galvatron(document, devices)
    for number, stage in enumerate(found.stages):
        held = [checkpointed for where, checkpointed in layers if where == number]
        assert len(held) == layers_of(stage)
        assert sum(held) == sum(entry.count for entry in stage.recompute if entry.whole)


def test_galvatron_reads_every_layer_on_its_stage() -> None:
    asked = request("galvatron")
    document = json.loads(written(made("galvatron"), "galvatron", asked.training).text)
    assert "1" in document["checkpoint"]
    check_galvatron(made("galvatron"), document, 4)


def test_galvatron_reads_the_replicas_and_tensors_of_the_plan() -> None:
    sizes = {"tensor_parallel": 2, "pipeline_parallel": 1, "data_parallel": 2, "zero_stage": 3}
    asked = request("galvatron")
    layout = asked.layout.model_copy(update=sizes)
    found = plan(asked.model_copy(update={"layout": layout}))
    document = json.loads(written(found, "galvatron", asked.training).text)
    check_galvatron(found, document, 4)
    assert set(listed(document["dp_types_enc"])) == {1}
    assert document["chunks"] == found.micro_batches


@pytest.mark.parametrize("name", ["llama-3.2-1b", "mixtral-8x7b", "deepseek-v2-lite", "gemma-2-9b"])
def test_mindspeed_recomputes_parts_beside_block_alone(name: str) -> None:
    """``--recompute-norm`` and ``--recompute-activation-function``: alone or with ``block``."""
    asked = question(
        PlanRequest.model_validate(
            {
                "model": {"name": name},
                "cluster": {"device": "Ascend-910B", "nodes": 1, "devices_per_node": 8},
                "training": {"sequence_length": 4096, "global_batch_size": 32},
                "layout": {"pipeline_parallel": 4, "tensor_parallel": 2, "micro_batch_size": 1}
                | {"expert_parallel": 1, "virtual_stages": 1, "schedule": "1f1b"},
            }
        )
    )
    layout = only_layout(asked)
    settings = [
        dict(regime.setting) for regime in TARGETS["mindspeed"].regimes(asked.costs(layout), layout)
    ]
    parts = {"recompute_norm", "recompute_activation_function"}
    assert any(parts <= set(setting) for setting in settings)
    for setting in settings:
        if setting.get("recompute_granularity") == "full":
            assert setting["recompute_method"] in ("uniform", "block")
            assert int(str(setting["recompute_num_layers"])) >= 1
        else:
            assert not {"recompute_method", "recompute_num_layers"} & set(setting)
        if parts & set(setting):
            assert setting.get("recompute_method", "block") == "block"
            assert "recompute_modules" not in setting
    distinct = {tuple(sorted(map(str, setting.items()))) for setting in settings}
    assert len(distinct) == len(settings), "no setting is tried twice"
