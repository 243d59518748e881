"""Fit the efficiencies, write them into the package, and predict each group without itself.

python -m benchmarks.calibrate
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from benchmarks.calibrate.parameters import FAMILIES, parameters, prior
from benchmarks.calibrate.workers import forked
from benchmarks.published import Published, published
from solver.calibrate.band import band
from solver.calibrate.fit import Fit
from solver.calibrate.parameters import Content, Parameter, efficiencies_in
from solver.calibrate.predict import Case, case, predict
from solver.costs import calibration
from solver.costs.calibration import Values

TARGET = Path(calibration.__file__).parent / "calibration"
LEFT_OUT = Path(__file__).parent / "left_out.json"
"""Seconds of each run, predicted without its group."""
FITTED = Path(__file__).parent / "fitted.json"
"""Seconds of each run as fitted: where today's differ, the others are of another cost model."""
STEPS = 5
DIGITS = 4

Predicted = list[tuple[Case, float]]


def main() -> None:
    """Fit and write."""
    cases = [
        _case(run) for file in ("runs", "runs_moe_fp8") for run in published(file) if run.timed
    ]
    fitted, start = parameters(), prior()
    for one in cases:  # so that the processes inherit every schedule
        predict(one, efficiencies_in(start, one.family))
    fit = Fit(cases, fitted, start, forked)
    found = fit.optimum(STEPS)
    content = fit.content_at(found)
    _name_sources(content, fitted, len(cases))
    without_group = list(fit.left_out(found))
    without_family = list(fit.left_out(found, lambda one: one.family))
    _add_bands(content, without_group, without_family)
    for name, values in content.items():
        (TARGET / f"{name}.json").write_text(json.dumps(_rounded(values), indent=2) + "\n")
    _write(LEFT_OUT, without_group)
    _write(FITTED, [(one, predict(one, efficiencies_in(content, one.family))) for one in cases])


def _write(path: Path, predicted: Predicted) -> None:
    seconds = {one.identity: round(value, 5) for one, value in predicted}
    path.write_text(json.dumps(seconds, indent=1, sort_keys=True) + "\n")


def _case(run: Published) -> Case:
    assert run.seconds is not None
    return case(run.identity, run.group, run.request, run.seconds)


def _add_bands(content: Content, without_group: Predicted, without_family: Predicted) -> None:
    """To each family the band of its runs; to the defaults that of families without their runs."""
    for family in FAMILIES:
        content[family]["band"] = _band(pair for pair in without_group if pair[0].family == family)
    content["default"]["band"] = _band(without_family)


def _band(predicted: Iterable[tuple[Case, float]]) -> Values:
    return band(one.measured / seconds for one, seconds in predicted).model_dump()


def _name_sources(content: Content, fitted: tuple[Parameter, ...], runs: int) -> None:
    """Say of each fitted value that it is, beside the source of its prior."""
    for parameter in fitted:
        sources = content[parameter.file].setdefault("sources", {})
        known = sources.get(parameter.name) or sources.get(parameter.path[-1])
        start = f"; prior: {known}" if known else ""
        sources[parameter.name] = f"fitted to {runs} published runs (benchmarks/calibrate){start}"


def _rounded(values: Values) -> Values:
    """Values to four significant digits, which is more than they are known to."""
    return {key: _round(value) for key, value in values.items()}


def _round(value: object) -> object:
    if isinstance(value, dict):
        return _rounded(value)
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return value


if __name__ == "__main__":
    main()
