"""Measured runs: requests of evaluations with what was measured."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from solver.request import PlanRequest
from solver.strict import Name, Strict

MOST_RUNS = 1000


class Measured(Strict):
    """What was measured of a run."""

    iteration_seconds: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = Field(
        description="Seconds of one iteration, the update included."
    )
    peak_memory_gb: float | None = Field(
        default=None, description="Decimal GB of the fullest device; not fitted to."
    )


class MeasuredRun(Strict):
    """A run that was measured: the request of its evaluation, and its time.

    ``group``: runs that are left out together when the fit is judged, such as those of one model;
    each run is its own group where none is named.
    """

    id: Name | None = None
    group: Name | None = None
    source: str | None = None
    note: str | None = None
    request: PlanRequest = Field(description="As for an evaluation: the whole layout and a policy.")
    measured: Measured

    @model_validator(mode="before")
    @classmethod
    def _take_the_request_from_around(cls, data: Any) -> Any:
        """A request with ``measured`` beside its own fields is a run as well."""
        if isinstance(data, dict) and "request" not in data and "model" in data:
            own = {name: data[name] for name in cls.model_fields if name in data}
            rest = {name: value for name, value in data.items() if name not in own}
            return {**own, "request": rest}
        return data


class RunsToFit(Strict):
    """What a calibration is to be fitted to: runs on one device."""

    name: Annotated[
        str,
        Field(
            max_length=100,
            pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]*$",
            description="What the calibration is to be called.",
        ),
    ]
    runs: Annotated[list[MeasuredRun], Field(min_length=1, max_length=MOST_RUNS)]
