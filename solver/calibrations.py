"""A calibration as a document: the efficiencies fitted to measured runs of one device.

A request names one, or carries its content; without any, the efficiencies that ship with the solver
are taken. The content decides the version, so that a plan says exactly what it was made with.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from pydantic import Field

from solver.strict import Name, Strict

Efficiency = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Ratio = Annotated[float, Field(gt=0, le=1e3, allow_inf_nan=False)]
Values = dict[Name, Efficiency]


class Band(Strict):
    """Between which multiples of a prediction a measurement is to be expected."""

    low: Ratio = Field(description="Measured over predicted seconds, at least.")
    high: Ratio = Field(description="Measured over predicted seconds, at most.")
    share: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.9, description="Of the measurements that lie between."
    )
    runs: Annotated[int, Field(ge=1)] = Field(
        description="Runs that it rests on, each predicted by a fit without its group."
    )


class Residual(Strict):
    """How near the fit comes to the runs of a group, and to those it did not see."""

    group: Name = Field(description="Runs that were left out together.")
    runs: int = Field(description="How many.")
    mean: float = Field(description="Predicted over measured, less one, on average.")
    mean_absolute: float = Field(description="The same without signs.")
    left_out: float = Field(description="The same without signs, by a fit without this group.")


class Calibration(Strict):
    """Efficiencies of one device, what they rest on, and how far to trust them."""

    name: Name = Field(description="What it is called.")
    version: Name | None = Field(
        default=None, description="Content address; in a request the newest of that name if absent."
    )
    device: Name | None = Field(default=None, description="An entry of the device catalogue.")
    values: Values = Field(
        default_factory=dict, description="Efficiencies of the device that were fitted."
    )
    software: dict[Name, Values] = Field(
        default_factory=dict, description="The same per generation of software."
    )
    band: Band | None = Field(default=None, description="How far measurements may lie off.")
    runs: int | None = Field(default=None, description="Runs that it was fitted to.")
    mean_error: float | None = Field(default=None, description="Over those runs.")
    mean_error_left_out: float | None = Field(
        default=None, description="The same, each run predicted by a fit without its group."
    )
    residuals: list[Residual] = Field(default_factory=list, description="By group.")
    sources: dict[Name, str] = Field(default_factory=dict, description="Of each value.")

    @property
    def has_content(self) -> bool:
        """Whether it states efficiencies, or only says which are meant."""
        return bool(self.values or self.software)

    def essential(self) -> Calibration:
        """What a prediction depends on: the content, its version and its band."""
        return Calibration(
            name=self.name,
            version=content_version(self),
            device=self.device,
            values=self.values,
            software=self.software,
            band=self.band,
        )


def content_version(calibration: Calibration) -> str:
    """The content address: 12 hexadecimal digits of a SHA-256 over device, values and band."""
    document = calibration.model_dump(mode="json", include={"device", "values", "software", "band"})
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
