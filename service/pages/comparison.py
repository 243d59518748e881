"""Plans side by side: a line per property, differences and the best marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.console.quantities import duration, percent, size
from service.pages import words
from service.pages.pictures.breakdown import LINES
from service.pages.shown import ShownPlan


@dataclass(frozen=True)
class Cell:
    """What one plan has, by how much it differs from the first; ``best`` where it is the best."""

    text: str
    change: str = ""
    best: bool = False


@dataclass(frozen=True)
class Line:
    """One property of all plans."""

    name: str
    cells: list[Cell]
    differs: bool


@dataclass(frozen=True)
class Group:
    """Lines that belong together."""

    name: str
    lines: list[Line]


_NONE = "—"
_Read = Callable[[ShownPlan], float | None]


def compare(plans: Sequence[ShownPlan]) -> list[Group]:
    """Everything worth comparing; lines that no plan has are left out."""
    groups = [
        Group("Result", [*_results(plans)]),
        Group("Where the time goes", _breakdown(plans)),
        Group("Layout", _of_part(plans, "layout")),
        Group("Run", _of_part(plans, "training") + _of_part(plans, "recompute")),
        Group("Cluster", _of_part(plans, "cluster")),
    ]
    return [group for group in groups if group.lines]


def _results(plans: Sequence[ShownPlan]) -> list[Line]:
    states = [shown.plan.status.value for shown in plans]
    lines = [
        Line("State", [Cell(state) for state in states], len(set(states)) > 1),
        _ranked(
            "Iteration",
            plans,
            lambda p: p.plan.iteration_seconds,
            duration,
            min,
            more="slower",
            less="faster",
        ),
        _ranked(
            "Tokens a second per device",
            plans,
            lambda p: p.plan.tokens_per_second_per_device,
            lambda tokens: f"{tokens:,.0f}",
            max,
        ),
        _ranked("Utilisation", plans, lambda p: p.plan.model_flops_utilization, percent, max),
        _ranked("Peak memory", plans, lambda p: p.plan.peak_memory_bytes, size, None),
        _ranked("Proved gap", plans, lambda p: p.plan.gap, words.gap, None, changes=False),
    ]
    return [line for line in lines if any(cell.text != _NONE for cell in line.cells)]


def _breakdown(plans: Sequence[ShownPlan]) -> list[Line]:
    lines = []
    for field, _, name in LINES:

        def seconds(shown: ShownPlan, field: str = field) -> float | None:
            return getattr(shown.plan.breakdown, field) if shown.plan.breakdown else None

        if any(seconds(shown) for shown in plans):
            lines.append(_ranked(name, plans, seconds, _time, None))
    return lines


def _ranked(
    name: str,
    plans: Sequence[ShownPlan],
    read: _Read,
    write: Callable[[float], str],
    best: Callable[[list[float]], float] | None,
    *,
    changes: bool = True,
    more: str = "more",
    less: str = "less",
) -> Line:
    values = [read(shown) for shown in plans]
    known = [value for value in values if value is not None]
    top = best(known) if best and known else None
    texts = [_NONE if value is None else write(value) for value in values]
    differs = _differ(texts)
    first = values[0]
    against_first = [
        ""
        if not (changes and value and first) or value == first
        else _change(value / first, more, less)
        for value in values
    ]
    return Line(
        name,
        [
            Cell(text, change, best=differs and value is not None and value == top)
            for text, change, value in zip(texts, against_first, values, strict=True)
        ],
        differs,
    )


def _of_part(plans: Sequence[ShownPlan], part: str) -> list[Line]:
    """The fields of the layout that was found, or of a part of the request."""
    rows: dict[str, list[str]] = {}
    for position, shown in enumerate(plans):
        source = shown.plan.layout if part == "layout" else getattr(shown.request, part)
        fields = source.model_dump(mode="json") if source is not None else {}
        for name, value in fields.items():
            row = rows.setdefault(name, [_NONE] * len(plans))
            row[position] = _written(name, value)
    marked = _differ if part == "layout" else _differ_or_lack
    return [
        Line(_NAMES.get(name) or _spoken(name), [Cell(text) for text in row], marked(row))
        for name, row in rows.items()
        if any(text != _NONE for text in row)
    ]


def _differ(texts: Sequence[str]) -> bool:
    """Whether what was found differs; a plan that does not fit has nothing to compare."""
    return len(set(texts) - {_NONE}) > 1


def _differ_or_lack(texts: Sequence[str]) -> bool:
    """Whether what was asked for differs; what one leaves out is a difference."""
    return len(set(texts)) > 1


_NAMES = {
    "tensor_parallel": "Tensor parallel",
    "virtual_stages": "Chunks per device",
    "micro_batch_size": "Micro-batch size",
    "zero_stage": "ZeRO stage",
    "global_batch_size": "Global batch (sequences)",
    "sequence_length": "Sequence length (tokens)",
    "policy": "Recompute policy",
    "modules": "Recomputed modules",
    "overlap": "Where recompute may hide",
    "memory_bytes": "Usable memory per device",
    "inter_node_bytes_per_second": "Between nodes, bytes a second per device",
    "switches": "Below a switch, and down to up",
}


def _spoken(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _change(ratio: float, more: str, less: str) -> str:
    """``+12%`` or ``248× less``: small differences as shares, large ones as multiples."""
    if 0.5 < ratio < 2.0:
        return words.change(ratio - 1.0)
    multiple, word = (ratio, more) if ratio > 1.0 else (1.0 / ratio, less)
    return f"{multiple:.2g}× {word}" if multiple < 10 else f"{multiple:,.0f}× {word}"


def _time(seconds: float) -> str:
    return duration(seconds) if seconds else "0 s"


def _written(name: str, value: object) -> str:
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") and isinstance(value, int | float):
        return size(value)
    if isinstance(value, int):
        return f"{value:,}"
    if name == "switches" and isinstance(value, list):
        return "; ".join(f"{one['nodes']} nodes, {one['oversubscription']:g} to 1" for one in value)
    return str(value)[:200]
