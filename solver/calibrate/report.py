"""A calibration out of a caller's measured runs, with what is to be known of it."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

import numpy as np

from solver.calibrate.band import band
from solver.calibrate.fit import Fit, Fitted
from solver.calibrate.measured import MeasuredRun
from solver.calibrate.own import own_parameters, starting_content
from solver.calibrate.parameters import Content, Parameter
from solver.calibrate.predict import Case, case
from solver.calibrations import Calibration, Residual, content_version
from solver.errors import BadRequest, StagecutError

STEPS = 5
DIGITS = 4
"""Significant ones, more than a value is known to."""


def calibrate(name: str, runs: list[MeasuredRun]) -> Calibration:
    """Fit the efficiencies of the runs' device.

    Raises:
        BadRequest: A run cannot be read, or they are not all of one device; the field says which.
    """
    cases = [_case(number, run) for number, run in enumerate(runs)]
    device = _one_device(cases)
    content = starting_content(cases)
    parameters = own_parameters(cases, content)
    fit = Fit(cases, parameters, content)
    found = fit.optimum(STEPS)
    left_out = {case.identity: seconds for case, seconds in fit.left_out(found)}
    fitted = fit.content_at(found)
    values, software = _changed(parameters, fitted)
    calibration = Calibration(
        name=name,
        device=device,
        values=values,
        software=software,
        band=band(case.measured / left_out[case.identity] for case in cases),
        runs=len(cases),
        mean_error=_mean_error(np.exp(found.errors)),
        mean_error_left_out=_mean_error(
            np.array([left_out[case.identity] / case.measured for case in cases])
        ),
        residuals=_residuals(cases, found, left_out),
        sources=_sources(parameters, len(cases)),
    )
    return calibration.model_copy(update={"version": content_version(calibration)})


def _case(number: int, run: MeasuredRun) -> Case:
    identity = run.id or f"run {number + 1}"
    try:
        seconds = run.measured.iteration_seconds
        return case(f"{number}:{identity}", run.group or identity, run.request, seconds)
    except StagecutError as error:
        raise BadRequest(
            f"Run {number + 1} ({identity}): {error.detail}",
            field=f"runs[{number}].request.{error.field}" if error.field else f"runs[{number}]",
            hint=error.hint,
        ) from None


def _one_device(cases: list[Case]) -> str:
    first = cases[0].calibrated.device
    for number, other in enumerate(cases):
        if other.calibrated.device != first:
            raise BadRequest(
                f"Run {number + 1} is of {other.calibrated.device}, the first one of {first}.",
                field=f"runs[{number}].request.cluster.device",
                hint="Fit the runs of each device to a calibration of its own.",
            )
    return first


def _changed(
    parameters: tuple[Parameter, ...], fitted: Content
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    values: dict[str, float] = {}
    software: dict[str, dict[str, float]] = defaultdict(dict)
    for parameter in parameters:
        held: object = fitted[parameter.file]
        for key in parameter.path:
            assert isinstance(held, dict)
            held = held[key]
        value = float(f"{held:.{DIGITS}g}")
        if parameter.path[0] == "values":
            values[parameter.path[1]] = value
        else:
            software[parameter.path[1]][parameter.path[2]] = value
    return values, dict(software)


def _residuals(cases: list[Case], found: Fitted, left_out: dict[str, float]) -> list[Residual]:
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one, error in zip(cases, found.errors, strict=True):
        unseen = left_out[one.identity] / one.measured - 1.0
        groups[one.group].append((float(np.exp(error)) - 1.0, unseen))
    return [
        Residual(
            group=group,
            runs=len(errors),
            mean=mean(seen for seen, _ in errors),
            mean_absolute=mean(abs(seen) for seen, _ in errors),
            left_out=mean(abs(unseen) for _, unseen in errors),
        )
        for group, errors in sorted(groups.items())
    ]


def _sources(parameters: tuple[Parameter, ...], runs: int) -> dict[str, str]:
    return {
        parameter.name: f"fitted to {runs} runs, from what ships for {parameter.file}"
        for parameter in parameters
    }


def _mean_error(ratios: np.ndarray) -> float:
    return float(np.abs(ratios - 1.0).mean())
