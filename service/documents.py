"""What the service answers beside the solver's own types; all of it is in the API page."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from service.problems import Problem
from service.store.plans import Standing, StoredPlan
from solver.calibrations import Calibration
from solver.cluster.device import Device
from solver.expected.documents import ObservationAnswer, Observations
from solver.plan import Export, Plan, Status


class Progress(BaseModel):
    """How far a solve is."""

    model_config = ConfigDict(extra="allow")

    incumbent_seconds: float | None = Field(
        default=None, description="Iteration time of the best plan found so far."
    )
    bound_seconds: float | None = Field(
        default=None, description="Proved: no plan is faster than this."
    )
    layouts_done: int | None = Field(default=None, description="Layouts begun.")
    layouts_total: int | None = Field(default=None, description="Layouts in question.")


class PlanDocument(Plan):
    """A plan wherever it stands: the answer once there is one, progress or a problem until then."""

    progress: Progress | None = None
    problem: Problem | None = None


class PlanEvent(BaseModel):
    """Where a plan stands, as an event says it: the plan's document without its answer."""

    id: str
    status: Status
    progress: Progress | None = None
    problem: Problem | None = None


class StudyDocument(BaseModel):
    """Something that is worked out as a job, until its answer is there."""

    id: str = Field(description="Content address of the request under this solver version.")
    status: str = Field(description="`queued`, `running`, `failed` or `cancelled`.")
    progress: Progress | None = None
    problem: Problem | None = None


class StoredObservation(BaseModel):
    """What was measured of a running plan, and what that says."""

    id: str = Field(description="Its id.")
    created_at: float = Field(description="Seconds since 1970.")
    measured: Observations = Field(description="As it was sent.")
    answer: ObservationAnswer = Field(description="What it says of the run.")


class ObservationList(BaseModel):
    """What was measured of a plan, newest first."""

    observations: list[StoredObservation] = Field(description="Newest first.")
    runs: list[dict[str, Any]] = Field(
        description="Their iterations as runs for `POST /v1/calibrations`."
    )


class PlanSummary(BaseModel):
    """A plan in a list."""

    id: str
    status: str
    model: str
    device: str | None
    devices: int | None
    iteration_seconds: float | None
    gap: float | None
    created_at: float = Field(description="Seconds since 1970-01-01 UTC.")
    finished_at: float | None


class ExportList(BaseModel):
    """A plan in the words of every framework."""

    exports: list[Export]


class PlanList(BaseModel):
    """A page of plans, newest first."""

    plans: list[PlanSummary]
    next: str | None = Field(description="The `cursor` of the next page; null on the last.")


class ModelEntry(BaseModel):
    """A model of the catalogue."""

    name: str
    parameters: int
    layers: int
    hidden_size: int
    vocabulary_size: int
    source: str = Field(description="Where its configuration stands.")
    note: str


class ModelList(BaseModel):
    """The catalogue of models."""

    models: list[ModelEntry]


class DeviceList(BaseModel):
    """The catalogue of devices."""

    devices: list[Device]


class CalibrationList(BaseModel):
    """Calibrations that were fitted here, newest first."""

    calibrations: list[Calibration]


class Health(BaseModel):
    """The service is up."""

    status: str
    version: str
    solver_version: str


def plan_json(stored: StoredPlan, progress: str | None = None) -> str:
    """The JSON of a :class:`PlanDocument`; a finished plan is the very text that was stored."""
    if stored.answer is not None:
        return stored.answer
    return event_json(stored.id, Standing(stored.status, stored.problem, progress))


def event_json(plan_id: str, standing: Standing) -> str:
    """The JSON of a :class:`PlanEvent`."""
    document = f'{{"id":"{plan_id}","status":"{standing.status}"'
    if standing.progress is not None:
        document += f',"progress":{standing.progress}'
    if standing.problem is not None:
        document += f',"problem":{standing.problem}'
    return document + "}"
