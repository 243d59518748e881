"""The toy planner, with samples for jobs of other kinds: what strangers ask may be large."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from service.schema_examples import sample
from solver import fleet
from solver.capacity.documents import CapacityAnswer
from solver.contingencies.documents import ContingencyAnswer
from solver.imports.documents import ImportAnswer
from solver.plan import Evaluation, Plan
from tests.service.toy_planner import begin, calibrate, check, evaluate, gather, part

__all__ = ["begin", "calibrate", "check", "evaluate", "gather", "part", "study"]


def study(kind: str, request: Any, progress: fleet.Tell | None = None) -> BaseModel:
    """A sample where the answer takes a job; the rest is worked out."""
    match kind:
        case "capacity":
            return CapacityAnswer.model_validate(sample("capacity"))
        case "contingency":
            return ContingencyAnswer.model_validate(sample("contingency"))
        case "import":
            return ImportAnswer(
                id="0" * 32,
                status="succeeded",
                framework="megatron-lm",
                yours=Evaluation.model_validate(sample("evaluation")),
                best=Plan.model_validate(sample("plan")),
            )
        case _:
            return fleet.study(kind, request, progress)
