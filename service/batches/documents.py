"""What a batch is asked with and what it answers; all of it is in the API page."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator

from solver.request import PlanRequest
from solver.strict import Name

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MOST_CASES = 2_000


class Expectations(BaseModel):
    """What must hold of a plan. Without any, a plan must be found."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fits: bool = Field(
        default=True, description="Whether anything fits at all; false expects that nothing does."
    )
    max_iteration_seconds: Positive | None = Field(
        default=None, description="The iteration takes at most so long."
    )
    max_peak_memory_bytes: Positive | None = Field(
        default=None, description="The fullest device holds at most so much."
    )
    min_model_flops_utilization: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="The model's FLOPs per second reach this share of the peak."
    )
    max_slowdown_against: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="Id of a finished plan; the iteration is not slower than its."
    )
    max_slowdown: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.0,
        description="By what share it may be slower all the same: 0.02 allows 2%.",
    )

    @model_validator(mode="after")
    def _hold_together(self) -> Self:
        if not self.fits and self.model_dump(exclude_defaults=True) != {"fits": False}:
            raise ValueError("where nothing fits there is nothing else to expect")
        return self


class BatchCase(BaseModel):
    """One request of a batch, and what is expected of its plan."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name | None = Field(
        default=None,
        description="What the reports call it, and by what later batches know it; unique in the"
        " batch. Default: `case 1` and so on.",
    )
    request: PlanRequest
    expectations: Expectations = Expectations()


class BatchRequest(BaseModel):
    """Many requests, solved after everything interactive."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = Field(default="batch", description="What the reports call the batch.")
    cases: Annotated[list[BatchCase], Field(min_length=1, max_length=MOST_CASES)]
    against: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="Id of an earlier batch; the reports say what changed since."
    )

    def names(self) -> list[str]:
        """The names of the cases, in order."""
        return [case.name or f"case {number}" for number, case in enumerate(self.cases, 1)]


class CaseStatus(StrEnum):
    """Where a case stands."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


class CaseResult(BaseModel):
    """A case: its plan, and whether that is as expected."""

    name: str = Field(description="The case's name.")
    plan_id: str = Field(description="The plan of its request.")
    status: CaseStatus = Field(
        description="`failed`: not as expected; `error`: there is no plan to judge."
    )
    reasons: list[str] = Field(
        default_factory=list, description="What is not as expected, a sentence each."
    )
    fits: bool | None = Field(default=None, description="As the plan's.")
    iteration_seconds: float | None = Field(default=None, description="As the plan's.")
    peak_memory_bytes: float | None = Field(default=None, description="As the plan's.")
    model_flops_utilization: float | None = Field(default=None, description="As the plan's.")
    gap: float | None = Field(default=None, description="As the plan's.")
    solver_seconds: float | None = Field(default=None, description="What the solve took.")


class BatchDocument(BaseModel):
    """A batch wherever it stands."""

    id: str = Field(description="By which it is asked for.")
    name: str = Field(description="As it was given.")
    status: str = Field(description="`running`, or `finished` once no case is pending.")
    created_at: float = Field(description="Seconds since 1970-01-01 UTC.")
    against: str | None = Field(default=None, description="The earlier batch compared with.")
    cases: list[CaseResult]
    changes: list[str] = Field(
        default_factory=list,
        description="What changed since the earlier batch, a sentence each, by name of the case.",
    )

    @computed_field(description="Cases by status.")  # type: ignore[prop-decorator]
    @property
    def counts(self) -> dict[CaseStatus, int]:
        """How many cases stand how."""
        found = Counter(case.status for case in self.cases)
        return {status: found[status] for status in CaseStatus}

    @computed_field(description="Whether every case is as expected; null while any is pending.")  # type: ignore[prop-decorator]
    @property
    def passed(self) -> bool | None:
        """Whether it is good, once that is known."""
        if any(case.status is CaseStatus.PENDING for case in self.cases):
            return None
        return all(case.status is CaseStatus.PASSED for case in self.cases)
