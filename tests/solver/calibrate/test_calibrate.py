"""Fits to runs whose efficiencies are known."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
from pydantic import ValidationError

from solver.calibrate.band import band
from solver.calibrate.measured import MeasuredRun, RunsToFit
from solver.calibrations import Calibration, content_version
from solver.costs.calibration import calibration
from solver.errors import BadRequest
from solver.planner import calibrate, evaluate
from solver.request import PlanRequest
from tests.solver.calibrate.samples import TRUE, request, runs


@cache
def fitted() -> Calibration:
    return calibrate(RunsToFit(name="mine", runs=runs()))


def test_the_fit_moves_from_what_ships_towards_the_truth() -> None:
    shipped = calibration("H100-SXM5-80GB", "fused").device
    for name, true in TRUE.values.items():
        before, after = getattr(shipped, name), fitted().values[name]
        assert abs(after - true) < 0.8 * abs(before - true), name


def test_runs_are_predicted_better_than_by_what_ships() -> None:
    errors: dict[bool, list[float]] = {True: [], False: []}
    for run in runs():
        for own in (True, False):
            update = {"calibration": fitted()} if own else {}
            seconds = evaluate(run.request.model_copy(update=update)).iteration_seconds
            errors[own].append(abs(seconds / run.measured.iteration_seconds - 1.0))
    assert max(errors[True]) < 0.02 < max(errors[False])
    assert fitted().mean_error == pytest.approx(sum(errors[True]) / len(errors[True]), abs=2e-3)


def test_residuals_are_told_by_group_and_the_band_holds_them() -> None:
    found = fitted()
    assert [entry.group for entry in found.residuals] == ["hidden 4096", "hidden 8192"]
    assert all(entry.runs == 4 for entry in found.residuals)
    assert found.mean_error_left_out is not None
    assert found.mean_error is not None
    assert found.mean_error_left_out >= found.mean_error
    assert found.band is not None
    assert found.band.low < 1.0 < found.band.high


def test_every_fitted_value_names_its_source() -> None:
    found = fitted()
    assert found.values.keys() <= found.sources.keys()
    for generation, values in found.software.items():
        assert {f"{generation}.{name}" for name in values} <= found.sources.keys()


def test_the_same_runs_give_the_same_version() -> None:
    again = calibrate(RunsToFit(name="other-name", runs=runs()[:2]))
    assert again.version == calibrate(RunsToFit(name="name", runs=runs()[:2])).version
    assert again.version != fitted().version


def test_answers_name_the_calibration_and_carry_its_band() -> None:
    asked = runs()[0].request
    plain = evaluate(asked)
    own = evaluate(asked.model_copy(update={"calibration": fitted()}))
    assert plain.calibration is not None
    assert plain.calibration.name == "h100"
    assert own.calibration is not None
    assert (own.calibration.name, own.calibration.version) == ("mine", fitted().version)
    for found in (plain, own):
        assert found.iteration_seconds_band is not None
        low, high = found.iteration_seconds_band
        assert low < found.iteration_seconds < high


def test_the_version_follows_from_the_content_alone() -> None:
    found = fitted()
    assert content_version(found.essential()) == found.version
    changed = found.model_copy(update={"values": {**found.values, "matmul_fraction": 0.5}})
    assert content_version(changed) != found.version


def _asked(**changes: Any) -> dict[str, Any]:
    return {**request(2, 4096, 1), **changes}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "unknown"}, "calibration.name"),
        ({"name": "x", "device": "B200-SXM-180GB", "values": {"matmul_fraction": 0.5}},
         "calibration.device"),
        ({"name": "x", "values": {"matmul": 0.5}}, "calibration.values.matmul"),
        ({"name": "x", "software": {"fusd": {"host_seconds": 1e-5}}}, "calibration.software.fusd"),
        ({"name": "x", "software": {"fused": {"host": 1e-5}}}, "calibration.software.fused.host"),
    ],
)  # fmt: skip
def test_a_calibration_that_does_not_fit_is_refused(given: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        evaluate(PlanRequest.model_validate(_asked(calibration=given)))
    assert refused.value.field == field


def test_a_run_that_cannot_be_read_is_named() -> None:
    run = {"request": _asked(), "measured": {"iteration_seconds": 1.0}}
    open_layout = {**run, "id": "b", "request": _asked(layout={"tensor_parallel": 2})}
    with pytest.raises(BadRequest) as refused:
        calibrate(RunsToFit.model_validate({"name": "x", "runs": [run, open_layout]}))
    assert refused.value.field is not None
    assert refused.value.field.startswith("runs[1].request.layout.")
    assert "Run 2 (b)" in refused.value.detail


def test_runs_of_two_devices_are_refused() -> None:
    cluster = {"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 8}
    both = [
        {"request": _asked(), "measured": {"iteration_seconds": 1.0}},
        {"request": _asked(cluster=cluster), "measured": {"iteration_seconds": 1.0}},
    ]
    with pytest.raises(BadRequest) as refused:
        calibrate(RunsToFit.model_validate({"name": "x", "runs": both}))
    assert refused.value.field == "runs[1].request.cluster.device"


def test_a_policy_that_leaves_the_recompute_open_is_refused() -> None:
    run = {
        "request": _asked(recompute={"policy": "optimal"}),
        "measured": {"iteration_seconds": 1.0},
    }
    with pytest.raises(BadRequest) as refused:
        calibrate(RunsToFit.model_validate({"name": "x", "runs": [run]}))
    assert refused.value.field == "runs[0].request.recompute.policy"


def test_a_request_with_what_was_measured_beside_its_fields_is_a_run() -> None:
    flat = MeasuredRun.model_validate({**_asked(), "measured": {"iteration_seconds": 2.0}})
    nested = MeasuredRun.model_validate(
        {"request": _asked(), "measured": {"iteration_seconds": 2.0}}
    )
    assert flat == nested


@pytest.mark.parametrize("seconds", [0, -1.0, "fast"])
def test_a_time_that_is_none_is_refused(seconds: object) -> None:
    with pytest.raises(ValidationError):
        MeasuredRun.model_validate(
            {"request": _asked(), "measured": {"iteration_seconds": seconds}}
        )


def test_many_ratios_give_their_own_quantiles_and_few_more_than_all() -> None:
    many = band([math.exp(value / 100) for value in range(-50, 50)])
    assert math.log(many.low) == pytest.approx(-0.46, abs=0.01)
    assert math.log(many.high) == pytest.approx(0.45, abs=0.01)
    few = band([1.1, 0.95])
    assert few.low < 1 / 1.1
    assert few.high > 1.1
