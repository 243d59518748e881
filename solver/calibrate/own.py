"""What a caller's runs are fitted with: the efficiencies of their device, from what ships.

Few runs move little: each value is held to the one that ships, by the spreads in ``priors.json``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from solver.calibrate.parameters import Content, Parameter
from solver.calibrate.predict import Case
from solver.costs.calibration import Values, shipped_content

_PRIORS = Path(__file__).parent / "priors.json"
_HIGHEST_SHARE = 1.0
"""No kernel or link is faster than its data sheet."""


def starting_content(cases: list[Case]) -> Content:
    """The shipped data files, with every value of the cases' family and software spelt out."""
    defaults, software = shipped_content("default"), shipped_content("software")
    content: Content = {"default": defaults, "software": software}
    for family in sorted({case.family for case in cases}):
        shipped = copy.deepcopy(shipped_content(family))
        shipped["values"] = {**defaults["values"], **shipped.get("values", {})}
        own = shipped.setdefault("software", {})
        for generation in sorted({case.software for case in cases}):
            own[generation] = {**software["generations"][generation], **own.get(generation, {})}
        content[family] = shipped
    return content


def own_parameters(cases: list[Case], content: Content) -> tuple[Parameter, ...]:
    """The values to fit: those that some run depends on and that are not zero."""
    generations = sorted({case.software for case in cases})
    return tuple(
        parameter
        for family in sorted({case.family for case in cases})
        for parameter in _candidates(family, generations)
        if _value(parameter, content) > 0 and any(map(parameter.concerns, cases))
    )


def _candidates(family: str, generations: list[str]) -> Iterator[Parameter]:
    priors = _priors()
    for name, spread in priors["values"].items():
        most = _HIGHEST_SHARE if name.endswith(("_fraction", "_fp8")) else float("inf")
        yield Parameter(family, ("values", name), spread, most=most)
    for generation in generations:
        for name, spread in priors["software"].items():
            yield Parameter(family, ("software", generation, name), spread)


def _value(parameter: Parameter, content: Content) -> float:
    values = content[parameter.file]
    for key in parameter.path:
        values = values[key]
    return float(values)  # type: ignore[arg-type]


@cache
def _priors() -> Values:
    content: Values = json.loads(_PRIORS.read_text(encoding="utf-8"))
    return content
