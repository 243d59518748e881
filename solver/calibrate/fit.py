"""Damped Gauss-Newton on the logarithm of predicted over measured time, robust and with priors.

The loss is Huber's (large misses, as of a run on a disturbed cluster, count linearly), groups of
many runs count less per run, and each parameter is held to its prior. Leaving a group out takes one
more step from the optimum without that group's rows; the group is then predicted in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from solver.calibrate.parameters import Content, Parameter, efficiencies_in, moved
from solver.calibrate.predict import Case, predict

Floats = npt.NDArray[np.float64]
Map = Callable[..., Iterable[Any]]
"""The built-in ``map``, or that of a pool of processes."""

NOISE = 0.05
"""Expected relative error of a run: what the priors' spreads are weighed against."""
LINEAR_FROM = 0.06
"""Errors above this count linearly."""
GROUP_EXPONENT = -0.3
"""A run's weight falls with this power of its group's size."""
STEP = 0.02
"""Of the finite differences."""
LONGEST_STEP = 0.5
SMALLEST_GAIN = 0.003
"""Of the loss: a smaller one ends the descent."""


@dataclass(frozen=True)
class Fitted:
    """The optimum: values in the fit's scale, log errors of all runs, and their derivatives."""

    values: Floats
    errors: Floats
    jacobian: Floats


class Fit:
    """One fit over a set of runs."""

    def __init__(
        self,
        cases: list[Case],
        fitted: tuple[Parameter, ...],
        content: Content,
        each: Map = map,
    ) -> None:
        self.cases = cases
        self.parameters = fitted
        self.content = content
        self.start = np.array([parameter.read(content) for parameter in fitted])
        self.spread = np.array([parameter.spread for parameter in fitted])
        sizes = Counter(case.group for case in cases)
        weights = np.array([float(sizes[case.group]) ** GROUP_EXPONENT for case in cases])
        self.weights = weights / weights.mean() / NOISE**2
        self.each = each

    def optimum(self, steps: int) -> Fitted:
        """Descend from the prior for at most ``steps`` steps."""
        values = self.start
        errors = self._errors(values)
        for _ in range(steps):
            jacobian = self._jacobian(values, errors)
            step = self._step(values, errors, jacobian, np.ones(len(self.cases), dtype=bool))
            for damping in (1.0, 0.5, 0.25):
                candidate = values + damping * step
                there = self._errors(candidate)
                if self._loss(candidate, there) < self._loss(values, errors):
                    break
            else:
                break
            gain = 1.0 - self._loss(candidate, there) / self._loss(values, errors)
            values, errors = candidate, there
            if gain < SMALLEST_GAIN:
                break
        return Fitted(values, errors, self._jacobian(values, errors))

    def content_at(self, found: Fitted) -> Content:
        """The data files with the fitted values in them."""
        return self._content(found.values)

    def left_out(
        self, found: Fitted, key: Callable[[Case], str] = lambda case: case.group
    ) -> Iterator[tuple[Case, float]]:
        """Each run's predicted seconds by a fit without the runs that ``key`` puts with it."""
        of_group = np.array([key(case) for case in self.cases])
        groups = sorted(set(of_group.tolist()))
        jobs = []
        for group in groups:
            kept = of_group != group
            values = found.values + self._step(found.values, found.errors, found.jacobian, kept)
            jobs.append(([self.cases[i] for i in np.flatnonzero(~kept)], self._content(values)))
        for (cases, _), errors in zip(
            jobs, self.each(_log_errors, *zip(*jobs, strict=True)), strict=True
        ):
            for case, error in zip(cases, errors, strict=True):
                yield case, case.measured * float(np.exp(error))

    def _content(self, values: Floats) -> Content:
        return moved(self.content, self.parameters, values.tolist())

    def _errors(self, values: Floats) -> Floats:
        content = self._content(values)
        halves = [self.cases[0::2], self.cases[1::2]]
        even, odd = self.each(_log_errors, halves, [content, content])
        errors = np.empty(len(self.cases))
        errors[0::2], errors[1::2] = even, odd
        return errors

    def _jacobian(self, values: Floats, errors: Floats) -> Floats:
        jacobian = np.zeros((len(self.cases), len(self.parameters)))
        rows, jobs = [], []
        for column, parameter in enumerate(self.parameters):
            concerned = [i for i, case in enumerate(self.cases) if parameter.concerns(case)]
            aside = values.copy()
            aside[column] += STEP
            rows.append(concerned)
            jobs.append(([self.cases[i] for i in concerned], self._content(aside)))
        moved_errors = self.each(_log_errors, *zip(*jobs, strict=True))
        for column, there in enumerate(moved_errors):
            jacobian[rows[column], column] = (there - errors[rows[column]]) / STEP
        return jacobian

    def _step(
        self, values: Floats, errors: Floats, jacobian: Floats, kept: npt.NDArray[np.bool_]
    ) -> Floats:
        robust = np.minimum(1.0, LINEAR_FROM / np.maximum(np.abs(errors), 1e-9))
        weights = (self.weights * robust)[kept]
        part = jacobian[kept]
        curvature = part.T @ (weights[:, None] * part) + np.diag(self.spread**-2)
        slope = part.T @ (weights * errors[kept]) + (values - self.start) / self.spread**2
        step: Floats = -np.linalg.solve(curvature, slope)
        return np.clip(step, -LONGEST_STEP, LONGEST_STEP)

    def _loss(self, values: Floats, errors: Floats) -> float:
        size = np.abs(errors)
        huber = np.where(size < LINEAR_FROM, size**2 / 2, LINEAR_FROM * (size - LINEAR_FROM / 2))
        held = ((values - self.start) / self.spread) ** 2 / 2
        return float((self.weights * huber).sum() + held.sum())


def _log_errors(cases: list[Case], content: Content) -> Floats:
    """Log of predicted over measured seconds."""
    return np.array(
        [
            np.log(predict(case, efficiencies_in(content, case.family)) / case.measured)
            for case in cases
        ]
    )
