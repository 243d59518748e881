"""Fit the efficiencies, write them into the package, and predict each group without itself.

python -m benchmarks.calibrate
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.calibrate.fit import Fit
from benchmarks.calibrate.parameters import Parameter, moved, parameters, prior
from benchmarks.calibrate.predict import case
from benchmarks.published import published
from solver.costs import calibration
from solver.costs.calibration import Values

TARGET = Path(calibration.__file__).parent / "calibration"
LEFT_OUT = Path(__file__).parent / "left_out.json"
STEPS = 5
DIGITS = 4


def main() -> None:
    """Fit and write."""
    cases = [
        case(run)
        for file in ("runs", "runs_moe_fp8")
        for run in published(file)
        if run.seconds is not None
    ]
    fitted = parameters()
    fit = Fit(cases, fitted, prior())
    found = fit.optimum(STEPS)
    content = moved(prior(), fitted, found.values.tolist())
    _name_sources(content, fitted, len(cases))
    for name, values in content.items():
        (TARGET / f"{name}.json").write_text(json.dumps(_rounded(values), indent=2) + "\n")
    left_out = {name: round(seconds, 5) for name, seconds in fit.left_out(found)}
    LEFT_OUT.write_text(json.dumps(left_out, indent=1, sort_keys=True) + "\n")


def _name_sources(content: dict[str, Values], fitted: tuple[Parameter, ...], runs: int) -> None:
    """Say of each fitted value that it is, beside the source of its prior."""
    for parameter in fitted:
        sources = content[parameter.file].setdefault("sources", {})
        key = ".".join(parameter.path[1:])
        known = sources.get(key) or sources.get(parameter.path[-1])
        start = f"; prior: {known}" if known else ""
        sources[key] = f"fitted to {runs} published runs (benchmarks/calibrate){start}"


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
