"""What is fitted: which efficiencies, from which prior, and how far they may move.

A parameter is fitted in a scale where any step is legal: the logarithm, or for shares below one the
log-odds. ``spread`` is the standard deviation around its prior in that scale. Whatever is not
listed stays at its prior.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from solver.calibrate.predict import Case
from solver.costs.calibration import Calibration, Efficiencies, Values, assemble
from solver.request import AttentionKernel, Precision

Content = dict[str, Values]
"""Contents of data files by their stems: families, ``default`` and ``software``."""


@dataclass(frozen=True)
class Parameter:
    """One fitted value: the file it stands in and the path to it.

    ``share``: it lies between 0 and 1 and is fitted in log-odds. ``most``: it is no larger.
    """

    file: str
    path: tuple[str, ...]
    spread: float
    share: bool = False
    most: float = math.inf

    @property
    def name(self) -> str:
        """Its path below the file's sections, as sources name it."""
        return ".".join(self.path[1:])

    def read(self, content: Content) -> float:
        """The value in the fit's scale."""
        values = content[self.file]
        for key in self.path:
            values = values[key]
        value = float(values)  # type: ignore[arg-type]
        return math.log(value / (1.0 - value)) if self.share else math.log(value)

    def write(self, content: Content, scaled: float) -> None:
        """Set the value from the fit's scale."""
        values = content[self.file]
        for key in self.path[:-1]:
            values = values[key]
        growth = math.exp(scaled)
        values[self.path[-1]] = growth / (1.0 + growth) if self.share else min(growth, self.most)

    def concerns(self, case: Case) -> bool:
        """Whether a run's prediction depends on it."""
        if self.file == "software":
            return self.path[1] == case.software
        if self.file not in ("default", case.family):
            return False
        if self.path[0] == "software":
            return self.path[1] == case.software
        name, training = self.path[-1], case.request.training
        if "fp8" in name:
            return training.precision is Precision.FP8
        if name in ("attention_forward_fraction", "attention_backward_fraction"):
            return training.attention is AttentionKernel.FLASH
        return True


def moved(content: Content, fitted: Iterable[Parameter], scaled: Iterable[float]) -> Content:
    """A copy of ``content`` with the parameters at these values."""
    changed = copy.deepcopy(content)
    for parameter, value in zip(fitted, scaled, strict=True):
        parameter.write(changed, value)
    return changed


def efficiencies_in(content: Content, family: str) -> Efficiencies:
    """The efficiencies of a family by generation of software."""
    return partial(_assembled, content, family)


def _assembled(content: Content, family: str, software: str) -> Calibration:
    return assemble(
        content.get(family, {}), content["default"], content["software"]["generations"], software
    )
