"""A plan as other frameworks can run it: never faster than the best plan of that layout."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from solver.errors import BadRequest, UnknownName
from solver.fleet import study
from solver.plan import Plan, Status
from solver.planner import plan
from solver.projections.documents import Projection, ProjectionRequest
from solver.projections.project import project
from solver.request import PlanRequest
from solver.targets.planned import layers_of
from solver.targets.registry import TARGETS


def free(layers: int = 5, end_seconds: float = 1.0, **changes: Any) -> PlanRequest:
    """Layers of two tensors and both ends on two devices, memory for some of it."""
    op = {"inputs": ["x"], "backward_seconds": 2.0, "forward_seconds": 1.0}
    first = op | {"name": "attention", "output_bytes": 3.0, "backward_reads": ["x", "attention"]}
    second = op | {"name": "feed_forward_in", "inputs": ["attention"], "output_bytes": 2.0}
    second |= {"backward_reads": ["attention", "feed_forward_in"]}
    layer = {"state_bytes": 1.0, "input_bytes": 1.0, "ops": [first, second]}
    last = first | {"output_bytes": 0.0, "forward_seconds": end_seconds}
    last |= {"backward_seconds": 2 * end_seconds}
    end = {"state_bytes": 1.0, "input_bytes": 1.0, "ops": [last]}
    return PlanRequest.model_validate(
        {
            "model": {
                "profile": {
                    "blocks": {"embedding": end, "layer": layer, "head": end},
                    "sequence": [["embedding", 1], ["layer", layers], ["head", 1]],
                }
            },
            "cluster": {"memory_bytes": 25.0},
            "training": {"global_batch_size": 6},
            "layout": {"pipeline_parallel": 2},
            **changes,
        }
    )


@cache
def made() -> Plan:
    found = plan(free())
    assert found.stages
    assert any(entry.recomputed for stage in found.stages for entry in stage.recompute)
    return found


def onto(framework: str) -> Projection:
    return project(ProjectionRequest(job=free(), plan=made(), framework=framework))


@pytest.mark.parametrize("framework", TARGETS)
def test_a_projection_lies_between_the_plan_and_nothing(framework: str) -> None:
    found = onto(framework)
    assert found.plan.iteration_seconds == made().iteration_seconds
    assert found.projected is not None
    assert found.slower is not None
    assert found.projected.fits
    assert found.slower >= -1e-9
    best = plan(free(target={"framework": framework}))
    assert best.iteration_seconds is not None
    assert found.projected.iteration_seconds >= best.iteration_seconds * (1 - 1e-9)
    assert found.export is not None
    assert found.export.exact


@pytest.mark.parametrize("framework", ["megatron-lm", "mindformers", "torchtitan", "pytorch"])
def test_the_split_stays_where_the_framework_can_be_given_it(framework: str) -> None:
    found = onto(framework)
    assert found.projected is not None
    assert found.changes == []
    layers = [layers_of(stage) for stage in found.projected.stages]
    assert layers == [layers_of(stage) for stage in made().stages]


def test_what_a_framework_was_planned_for_comes_back_as_it_is() -> None:
    asked = free(target={"framework": "megatron-lm"})
    own = plan(asked)
    found = project(ProjectionRequest(job=asked, plan=own, framework="megatron-lm"))
    assert found.slower == pytest.approx(0.0, abs=1e-12)
    assert own.restriction is not None
    assert found.setting == own.restriction.setting


def test_a_schedule_that_a_framework_lacks_is_replaced_and_said() -> None:
    asked = free(
        layout={"pipeline_parallel": 2, "schedule": "gpipe"}, cluster={"memory_bytes": 60.0}
    )
    found = project(ProjectionRequest(job=asked, plan=plan(asked), framework="colossalai"))
    assert any("schedule: gpipe, now 1f1b" in change for change in found.changes)
    assert found.projected is not None
    assert found.projected.layout.schedule == "1f1b"


@cache
def made_interleaved() -> tuple[PlanRequest, Plan]:
    """Two chunks on each device, on a split that every framework can be given."""
    asked = free(
        layers=7,
        end_seconds=0.1,
        layout={"pipeline_parallel": 2, "virtual_stages": 2},
        cluster={"memory_bytes": 36.0},
    )
    found = plan(asked)
    assert [layers_of(stage) for stage in found.stages] == [1, 2, 2, 2]
    assert any(entry.recomputed for stage in found.stages for entry in stage.recompute)
    return asked, found


@pytest.mark.parametrize(
    "framework", ["megatron-lm", "mindformers-graph", "torchtitan", "colossalai", "pytorch"]
)
def test_the_split_of_stages_that_share_devices_stays_as_well(framework: str) -> None:
    asked, own = made_interleaved()
    found = project(ProjectionRequest(job=asked, plan=own, framework=framework))
    assert found.projected is not None
    assert found.slower is not None
    assert found.slower >= -1e-9
    assert found.projected.fits
    layers = [layers_of(stage) for stage in found.projected.stages]
    assert found.changes == []
    assert layers == [layers_of(stage) for stage in own.stages]


def test_nothing_to_project_is_refused() -> None:
    none = made().model_copy(update={"stages": [], "status": Status.INFEASIBLE})
    with pytest.raises(BadRequest):
        project(ProjectionRequest(job=free(), plan=none, framework="megatron-lm"))
    with pytest.raises(UnknownName):
        onto("megatron")


def test_it_survives_the_way_to_a_solver_process() -> None:
    asked = ProjectionRequest(job=free(), plan=made(), framework="galvatron")
    there = study("projection", json.loads(asked.model_dump_json()))
    assert isinstance(there, Projection)
    assert there.slower == onto("galvatron").slower


def test_flags_stay_flags() -> None:
    flags = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 512 --bf16 "
    flags += "--max-position-embeddings 512 --vocab-size 1024 --global-batch-size 8 "
    flags += "--micro-batch-size 1 --pipeline-model-parallel-size 2"
    asked = PlanRequest.model_validate(
        {
            "model": {"megatron_args": flags},
            "cluster": {"device": "RTX4090", "nodes": 1, "devices_per_node": 2},
            "recompute": {"policy": "optimal"},
        }
    )
    whole = ProjectionRequest(job=asked, plan=plan(asked), framework="torchtitan")
    found = study("projection", json.loads(whole.model_dump_json()))
    assert isinstance(found, Projection)
    assert found.projected is not None
    assert found.projected.micro_batches == 8
