"""An example for every schema of the API page, cut out of whole requests and answers.

The requests are the files of ``examples/`` and ``samples/request.json``; the answers in
``samples/`` are what the solver says to that request.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import solver
from service.batches.documents import BatchDocument, BatchRequest
from service.catalogues import known_devices, known_models
from service.clusters import (
    ClusterDocument,
    ClusterImport,
    ClusterList,
    ClusterSummary,
    imported,
)
from service.documents import (
    CalibrationList,
    DeviceList,
    ExportList,
    Health,
    ModelList,
    ObservationList,
    PlanDocument,
    PlanEvent,
    PlanList,
    StudyDocument,
)
from service.importing import ImportRequest
from service.problems import Problem
from service.version import VERSION
from solver.calibrate.measured import RunsToFit
from solver.capacity.documents import CapacityAnswer, CapacityRequest
from solver.checkpoints.documents import CheckpointAdvice, CheckpointTerms
from solver.contingencies.documents import ContingencyAnswer, ContingencyRequest, Covered, NodeSet
from solver.contingencies.lookup import Lookup
from solver.expected.documents import ExpectedAnswer, ObservationAnswer, Observations
from solver.identity import SOLVER_VERSION
from solver.imports.documents import ImportAnswer
from solver.placement.documents import PlacementAnswer, PlacementRequest
from solver.plan import Evaluation
from solver.projections.documents import Projection
from solver.request import PlanRequest
from solver.transitions.documents import TransitionAnswer, TransitionRequest

_FOLDERS = (  # in the source tree, or where the installed package has its data
    Path(solver.__file__).parents[1] / "examples",
    Path(sys.prefix) / "share" / "stagecut" / "examples",
)


def example_requests() -> dict[str, Any]:
    """The example requests by name."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), _FOLDERS[0])
    named = {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))
    }
    return named | {"a-small-profile": sample("request")}


def sample(name: str) -> Any:
    """A document of the folder ``samples``."""
    return json.loads(files("service").joinpath("samples", f"{name}.json").read_text("utf-8"))


def example_batch() -> dict[str, Any]:
    """A batch that runs as it is."""
    request = sample("request")
    return {
        "name": "nightly",
        "cases": [
            {"name": "fits", "request": request, "expectations": {"fits": True}},
            {
                "name": "fast enough",
                "request": request,
                "expectations": {"max_iteration_seconds": 60.0, "max_peak_memory_bytes": 8.0e10},
            },
        ],
    }


_CHOICE = {
    "field": "tensor_parallel",
    "value": 8,
    "chosen": False,
    "iteration_seconds": 59.1,
    "lower_bound_seconds": 58.9,
    "slower_at_least": 0.06,
    "slower_at_most": 0.063,
}
_TRADE_OFF = {
    "memory_bytes": 6.4e10,
    "peak_memory_bytes": 6.38e10,
    "iteration_seconds": 57.2,
    "lower_bound_seconds": 57.19,
}


_OFFLOAD = {
    "bytes_per_second": 5.0e10,
    "host_memory_bytes": 2.5e11,
    "host_peak_bytes": 3.1e10,
    "staging_bytes": 1.2e9,
    "block_bytes": {"layer": 6.0e8},
}
_LEAFS = {
    "device": "H100-SXM5-80GB",
    "nodes": 64,
    "devices_per_node": 8,
    "switches": [{"nodes": 16, "oversubscription": 2.0}],
}


def schema_examples() -> dict[str, Any]:
    """Schema name to an example of it."""
    found: dict[str, Any] = {}
    for model, document in _documents():
        _collect(model, document, found)
    return found


def _documents() -> Iterator[tuple[type[BaseModel], Any]]:
    plan = sample("plan")
    yield PlanRequest, sample("request") | {"target": {"framework": "megatron-lm"}}
    for request in example_requests().values():
        yield PlanRequest, request
    yield PlanRequest, sample("request") | {"cluster": _LEAFS}
    yield PlanDocument, plan
    yield PlanDocument, {"id": plan["id"], "status": "running", "progress": _PROGRESS}
    yield PlanDocument, {"id": plan["id"], "status": "infeasible", "shortfall": _shortfall(plan)}
    made = {"id": plan["id"], "status": "succeeded", "exports": [_EXPORT]}
    yield PlanDocument, made | {"restriction": _RESTRICTION}
    yield PlanDocument, made | {"stages": [_hiding(plan)]}
    yield ExportList, {"exports": [_EXPORT]}
    yield PlanDocument, plan | {"alternatives": [_alternative(plan)]}
    yield PlanDocument, plan | {"choices": [_CHOICE], "trade_off": [_TRADE_OFF]}
    yield PlanEvent, {"id": plan["id"], "status": "running", "progress": _PROGRESS}
    yield BatchRequest, example_batch()
    yield BatchDocument, _batch(plan)
    yield Evaluation, sample("evaluation")
    yield Evaluation, {"offload": _OFFLOAD}
    yield Evaluation, {"calibration": {"name": "h100", "version": "ce2b30290d41", "runs": 142}}
    yield RunsToFit, sample("runs")
    yield CalibrationList, {"calibrations": [sample("calibration")]}
    yield Problem, _PROBLEM
    yield PlanList, {"plans": [_summary(plan)], "next": None}
    yield ModelList, {"models": [known_models().models[0].model_dump(mode="json")]}
    yield (
        DeviceList,
        known_devices().model_dump(mode="json")
        | {"devices": known_devices().model_dump(mode="json")["devices"][:1]},
    )
    cluster = imported(ClusterImport.model_validate(sample("cluster_import")))
    document = cluster.model_dump(mode="json")
    yield CapacityRequest, sample("capacity_request") | _FABRIC
    yield CapacityAnswer, sample("capacity")
    yield ContingencyRequest, sample("contingency_request") | {"stages": [17, 17]}
    yield ContingencyAnswer, sample("contingency")
    yield from _covered(sample("contingency"))
    yield from _expectations()
    yield PlacementRequest, sample("placement_request")
    yield PlacementAnswer, sample("placement")
    yield TransitionRequest, sample("transition_request")
    yield TransitionAnswer, sample("transition")
    yield ImportRequest, sample("import_request")
    yield ImportAnswer, _compared(plan)
    yield Projection, _PROJECTION | {"projected": sample("evaluation"), "export": _EXPORT}
    yield StudyDocument, {"id": plan["id"], "status": "running", "progress": _PROGRESS}
    yield ClusterImport, sample("cluster_import")
    yield ClusterDocument, document
    yield (
        ClusterList,
        {"clusters": [{name: document[name] for name in ClusterSummary.model_fields}]},
    )
    yield Health, {"status": "ok", "version": VERSION, "solver_version": SOLVER_VERSION}


def _collect(annotation: Any, document: Any, found: dict[str, Any]) -> None:
    """Note ``document`` as an example of the schema that it is of, and so on for its parts."""
    if document is None:
        return
    if isinstance(annotation, type) and hasattr(annotation, "__annotations__"):
        if isinstance(document, Mapping):
            found.setdefault(annotation.__name__, document)
            for name, inner in typing.get_type_hints(annotation).items():
                _collect(inner, document.get(name), found)
        return
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        for option in arguments:
            _collect(option, document, found)
    elif origin is list and isinstance(document, list) and document:
        _collect(arguments[0], document[0], found)
    elif origin is dict and isinstance(document, Mapping) and document:
        _collect(arguments[1], next(iter(document.values())), found)


def _expectations() -> Iterator[tuple[type[BaseModel], Any]]:
    """What is expected of a plan, and what is said of measurements."""
    expected, judged = sample("expected"), sample("observation")
    measured = sample("observations") | {
        "collectives": [{"name": "tensor_parallel.all-gather", "bus_bytes_per_second": 3.1e11}]
    }
    stored = {
        "id": "5f0d8d0c5d3e4d6a9a3f0c0b1a2d3e4f",
        "created_at": 1_796_040_000.0,
        "measured": measured,
        "answer": judged,
    }
    yield ExpectedAnswer, expected
    yield Observations, measured
    yield ObservationAnswer, judged
    yield ObservationList, {"observations": [stored], "runs": [judged["run"]]}
    yield CheckpointTerms, sample("checkpoint_terms")
    yield CheckpointAdvice, sample("checkpoint_advice")


def _covered(contingency: Any) -> Iterator[tuple[type[BaseModel], Any]]:
    """What is read for one failed node, by itself and by what is left."""
    answer = ContingencyAnswer.model_validate(contingency)
    yield Covered, Lookup.of(answer).covered([answer.nodes[0].name]).model_dump(mode="json")
    courses = answer.classes[0].courses
    yield (
        NodeSet,
        {
            "failed": answer.classes[0].failed,
            "transition_seconds": [course.transition_seconds for course in courses],
            "moved_bytes": [course.moved_bytes for course in courses],
        },
    )


def _summary(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": plan["id"],
        "status": plan["status"],
        "model": "profile",
        "device": None,
        "devices": None,
        "iteration_seconds": plan["iteration_seconds"],
        "gap": plan["gap"],
        "created_at": 1_796_040_000.0,
        "finished_at": 1_796_040_000.2,
    }


def _batch(plan: Mapping[str, Any]) -> dict[str, Any]:
    case = {
        "name": "fast enough",
        "plan_id": plan["id"],
        "status": "failed",
        "reasons": ["An iteration takes 61.5 s, more than 60 s."],
        "fits": True,
        "iteration_seconds": 61.5,
    }
    document = {
        "id": "9c5b94b1a5b64f27b1c9f21c0d6a1d0e",
        "name": "nightly",
        "status": "finished",
        "created_at": 1_796_040_000.0,
        "against": "0b0c95f7e7d94a6c8a4a5a0d6a1c2f33",
        "cases": [case],
        "changes": ["fast enough: was passed, is failed."],
    }
    return document | BatchDocument.model_validate(document).model_dump(
        mode="json", include={"counts", "passed"}
    )


def _hiding(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A stage of the plan that hides one tensor."""
    stage = plan["stages"][0]
    placed = {"tensor": "norm", "window": "reduce", "following": False}
    entry = stage["recompute"][0] | {"recomputed": ["norm"], "placed": [placed]}
    return {**stage, "recompute": [entry]}


def _compared(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A run of today beside the plan."""
    return {
        "id": "1f6a4b94b1a5b64f27b1c9f21c0d6a1d",
        "status": "succeeded",
        "framework": "megatron-lm",
        "yours": sample("evaluation"),
        "best": plan,
        "given_up": ["--recompute-granularity full", "--recompute-num-layers 1"],
        "taken_up": ["--recompute-granularity selective", "--recompute-modules layernorm mlp"],
        "words": [
            "Yours: 14.2 s, 71 GB on stage 0.",
            "Best for Megatron-LM at these sizes: 12.1 s.",
            "Best of all at these sizes: 11.6 s.",
        ],
    }


def _alternative(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "layout": plan["layout"],
        "iteration_seconds": None,
        "lower_bound_seconds": 1.1 * plan["iteration_seconds"],
        "slower": 0.1,
    }


def _shortfall(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "stage": 0,
        "missing_bytes": 2.0e9,
        "needed_bytes": 2.5e10,
        "memory_limit_bytes": 2.3e10,
        "layout": plan["layout"],
    }


_FABRIC = {
    "devices": [{"device": "H100-SXM5-80GB", "devices_per_node": 8}],
    "spread": {"nodes_per_leaf": 16, "oversubscription": 2.0},
}
_PROGRESS = {
    "incumbent_seconds": 17.4,
    "bound_seconds": 16.9,
    "layouts_done": 12,
    "layouts_total": 40,
}
_RESTRICTION = {
    "framework": "megatron-lm",
    "version": "core 0.20 (d98e8a64)",
    "setting": {"recompute_granularity": "selective", "recompute_modules": ["layernorm", "mlp"]},
    "iteration_seconds_free": 67.25,
    "lower_bound_seconds_free": 67.25,
    "cost": 0.0905,
}
_PROJECTION = {
    "framework": "megatron-lm",
    "version": "core 0.20 (d98e8a64)",
    "plan": {"iteration_seconds": 11.6, "peak_memory_bytes": 7.1e10, "fits": True},
    "setting": {"recompute_granularity": "selective", "recompute_modules": ["layernorm", "mlp"]},
    "slower": 0.043,
    "changes": ["The split is the best that Megatron-LM can be given."],
}
_EXPORT = {
    "framework": "megatron-lm",
    "version": "core 0.20 (d98e8a64)",
    "arguments": ["--tensor-model-parallel-size 8", "--pipeline-model-parallel-size 4"],
    "file": "megatron-lm.args",
    "media_type": "text/plain",
    "text": "--tensor-model-parallel-size 8 \\\n--pipeline-model-parallel-size 4\n",
    "exact": True,
    "notes": [],
}
_PROBLEM = {
    "type": "urn:stagecut:problem:illegal-layout",
    "title": "This parallel layout is not legal",
    "status": 422,
    "detail": "The cluster's 64 devices cannot be divided into groups of 5.",
    "field": "layout.tensor_parallel",
    "hint": "Nearest legal values: 4 or 8.",
    "errors": [
        {
            "field": "layout.tensor_parallel",
            "detail": "The cluster's 64 devices cannot be divided into groups of 5.",
            "hint": "Nearest legal values: 4 or 8.",
        }
    ],
}
