"""The door beside plans: what schedulers ask, and what frameworks can run of a plan.

What a job is worth where, where its ranks go, what when nodes fail; a plan projected onto a
framework, and today's run beside the best one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from solver.capacity.curve import capacity
from solver.capacity.curve import check as check_capacity
from solver.capacity.documents import CapacityRequest
from solver.checkpoints.advice import advice
from solver.checkpoints.documents import CheckpointRequest
from solver.contingencies.contingencies import check as check_contingencies
from solver.contingencies.contingencies import contingencies
from solver.contingencies.documents import ContingencyRequest
from solver.expected.documents import ExpectedRequest, ObservedRequest
from solver.expected.expected import expected
from solver.expected.observed import observed
from solver.imports.compare import compare
from solver.imports.documents import ImportStudy
from solver.placement.documents import PlacementRequest
from solver.placement.place import place
from solver.progress import Progress
from solver.projections.documents import ProjectionRequest
from solver.projections.project import project
from solver.transitions.documents import TransitionRequest
from solver.transitions.transition import transition

Tell = Callable[[Progress], None]


def study(kind: str, request: Any, progress: Tell | None = None) -> BaseModel:
    """The answer to a request of a kind.

    Args:
        kind: ``capacity``, ``checkpoints``, ``contingency``, ``expected``, ``import``,
            ``observed``, ``placement``, ``projection`` or ``transition``.
        request: The request as plain data.
        progress: Told how far it is.

    Raises:
        BadRequest: The request cannot be answered.
        KeyError: No such kind.
    """
    return _STUDIES[kind](request, progress)


def check(kind: str, request: Any) -> None:
    """Refuse a request for every reason that can be told without solving.

    Raises:
        BadRequest: As ``study`` would.
    """
    if kind == "capacity":
        check_capacity(CapacityRequest.model_validate(request))
    if kind == "contingency":
        check_contingencies(ContingencyRequest.model_validate(request))


_STUDIES: dict[str, Callable[[Any, Tell | None], BaseModel]] = {
    "capacity": lambda request, tell: capacity(
        CapacityRequest.model_validate(request), progress=tell
    ),
    "checkpoints": lambda request, _: advice(CheckpointRequest.model_validate(request)),
    "expected": lambda request, _: expected(ExpectedRequest.model_validate(request)),
    "observed": lambda request, _: observed(ObservedRequest.model_validate(request)),
    "contingency": lambda request, tell: contingencies(
        ContingencyRequest.model_validate(request), progress=tell
    ),
    "transition": lambda request, _: transition(TransitionRequest.model_validate(request)),
    "placement": lambda request, _: place(PlacementRequest.model_validate(request)),
    "import": lambda request, _: compare(ImportStudy.model_validate(request)),
    "projection": lambda request, _: project(ProjectionRequest.model_validate(request)),
}
