"""The reports of accuracy: what they count, and that no error grows unnoticed."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import mean

import pytest

from benchmarks import accuracy, memory_accuracy
from benchmarks.calibrate.parameters import parameters, prior
from benchmarks.published import Published, misranked, published, ranking
from solver.calibrate.parameters import moved
from solver.costs.calibration import Calibration
from solver.question import of_architecture


def _twins(seconds: tuple[float, float]) -> list[Published]:
    """Two layouts of one contest, measured at these times."""
    runs = [run for run in published("runs") if run.identity in ("vt-0000", "vt-0001")]
    return [replace(run, seconds=value) for run, value in zip(runs, seconds, strict=True)]


def test_a_pair_ranked_as_measured_counts_as_right_and_costs_no_regret() -> None:
    found = ranking(_twins((1.0, 2.0)), {"vt-0000": 10.0, "vt-0001": 11.0})
    assert (found.pairs, found.right, found.regret) == (1, 1, 0.0)


def test_choosing_the_slower_layout_is_regretted() -> None:
    found = ranking(_twins((1.0, 2.0)), {"vt-0000": 11.0, "vt-0001": 10.0})
    assert (found.pairs, found.right, found.regret) == (1, 0, 1.0)


def test_both_runs_of_a_wrong_pair_are_named() -> None:
    assert misranked(_twins((1.0, 2.0)), {"vt-0000": 11.0, "vt-0001": 10.0}) == {
        "vt-0000": 1,
        "vt-0001": 1,
    }


def test_layouts_measured_as_equal_are_no_pair() -> None:
    assert ranking(_twins((1.0, 1.04)), {"vt-0000": 1.0, "vt-0001": 2.0}).pairs == 0


def test_pairs_of_runs_that_do_not_count_are_none() -> None:
    seconds = {"vt-0000": 11.0, "vt-0001": 10.0}
    found = ranking(_twins((1.0, 2.0)), seconds, lambda run: run.identity == "vt-0000")
    assert (found.pairs, found.share) == (0, 1.0)


def test_parameters_are_written_as_they_are_read() -> None:
    content = prior()
    values = [parameter.read(content) for parameter in parameters()]
    assert [p.read(moved(content, parameters(), values)) for p in parameters()] == pytest.approx(
        values
    )


def test_every_run_with_a_time_was_predicted_without_its_group() -> None:
    timed = [
        run.identity
        for file in ("runs", "runs_moe_fp8")
        for run in published(file)
        if run.seconds is not None
    ]
    assert set(json.loads(accuracy.LEFT_OUT.read_text())) == set(timed)
    assert set(json.loads(accuracy.FITTED.read_text())) == set(timed)


def test_what_was_left_out_by_another_cost_model_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fitted = json.loads(accuracy.FITTED.read_text())
    assert accuracy._stale(fitted) == 0.0
    assert accuracy._stale({**fitted, "vt-0000": 1.02 * fitted["vt-0000"]}) == 1 / len(fitted)
    assert "vt-0000" in capsys.readouterr().out


SOURCE = "MooreThreads/SimuMax"


def _check(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The check's status and complaint over the runs of one source."""
    runs = [run for run in published("runs") if run.source == SOURCE]
    figures = accuracy.errors(runs, accuracy.predictions(runs)).figures(SOURCE)
    return accuracy._grown(figures), capsys.readouterr().err


def test_the_check_passes_as_it_is_and_fails_for_a_constant_that_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _check(capsys) == (0, "")
    ours = of_architecture.calibration

    def slower(device: str, software: str) -> Calibration:
        found = ours(device, software)
        rate = 0.9 * found.device.matmul_fraction
        return replace(found, device=replace(found.device, matmul_fraction=rate))

    monkeypatch.setattr(of_architecture, "calibration", slower)
    status, complaint = _check(capsys)
    assert status == 1
    assert f"grew by more than a tenth: {SOURCE}: time" in complaint


@pytest.mark.parametrize(("growth", "status"), [(1.0, 0), (1.09, 0), (1.2, 1)])
def test_an_error_may_grow_by_a_tenth(growth: float, status: int) -> None:
    kept = json.loads(accuracy.BASELINE.read_text())
    assert accuracy._grown({name: growth * figure for name, figure in kept.items()}) == status


@pytest.mark.parametrize(
    "source", ["InternLM/InternEvo", "huggingface/nanotron", "pytorch/torchtitan"]
)
def test_naming_the_software_brings_its_memory_nearer(source: str) -> None:
    files = ("runs", "runs_moe_fp8")
    runs = [r for file in files for r in published(file) if r.source == source and r.memory_gb]
    predicted = accuracy.predictions(runs)
    named = mean(accuracy.errors(runs, predicted).memory)
    without = replace(predicted, memory_gb=predicted.unnamed_gb)
    assert named < mean(accuracy.errors(runs, without).memory) / 2


@pytest.mark.slow
def test_no_error_of_allocated_memory_grew_by_more_than_a_tenth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["memory_accuracy", "--check"])
    assert memory_accuracy.main() == 0


@pytest.mark.slow
def test_no_error_grew_by_more_than_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["accuracy", "--check"])
    assert accuracy.main() == 0
