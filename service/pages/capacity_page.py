"""The page of a capacity curve: the picture, what it says, and a table of the sizes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from fastapi.responses import HTMLResponse

from service.console.layouts import layout_in_short
from service.pages import render
from service.pages.pictures.capacity import capacity, name
from service.pages.pictures.svg import NARROW
from solver.capacity.documents import CapacityAnswer, Curve, Point


@dataclass(frozen=True)
class Row:
    """A useful size, or consecutive sizes that are all worth the same (``last`` is their last)."""

    point: Point
    last: Point
    layout: str
    gap: float | None
    marks: list[str]

    @property
    def span(self) -> str:
        """The sizes: ``5`` or ``5–8``."""
        first, last = self.point.nodes, self.last.nodes
        return f"{first:,}" if first == last else f"{first:,}–{last:,}"


@dataclass(frozen=True)
class Table:
    """The sizes of one curve, and what it says in a sentence."""

    name: str
    sentence: str
    rows: list[Row]


def page(study_id: str, heading: str, answer: CapacityAnswer, planned: set[str]) -> HTMLResponse:
    """The page; ``planned`` are those of its plans that there are."""
    return render.page(
        "capacity.html",
        study_id=study_id,
        title=heading,
        answer=answer,
        planned=planned,
        picture=capacity(answer.curves),
        narrow=capacity(answer.curves, NARROW),
        tables=[_table(curve) for curve in answer.curves],
    )


def plan_ids(answer: CapacityAnswer) -> set[str]:
    """The plans that the answer speaks of."""
    return {point.plan_id for curve in answer.curves for point in curve.points if point.plan_id}


def _table(curve: Curve) -> Table:
    groups = groupby(curve.points, key=lambda point: (point.useful and point.nodes, point.feasible))
    return Table(name(curve), _sentence(curve), [_row(curve, list(run)) for _, run in groups])


def _row(curve: Curve, run: list[Point]) -> Row:
    first = run[0]
    seconds, bound = first.iteration_seconds, first.lower_bound_seconds
    known = seconds is not None and bound is not None
    there = {
        "smallest that fits": first.nodes == curve.smallest_feasible,
        "knee": first.nodes == curve.knee,
    }
    return Row(
        first,
        run[-1],
        layout_in_short(first.layout) if first.layout else "",
        1.0 - bound / seconds if known and seconds else None,  # type: ignore[operator]
        [mark for mark, holds in there.items() if holds],
    )


def _sentence(curve: Curve) -> str:
    if curve.smallest_feasible is None:
        return "Nothing fits on any of these sizes."
    found = [f"Something fits from {_nodes(curve.smallest_feasible)} on."]
    sizes = sum(point.feasible for point in curve.points)
    useful = sum(point.useful for point in curve.points)
    if useful < sizes:
        found.append(f"{useful:,} of {sizes:,} sizes are useful; the others waste nodes.")
    else:
        found.append("Every size is useful.")
    if curve.knee is not None:
        found.append(f"The curve bends most at {_nodes(curve.knee)}.")
    return " ".join(found)


def _nodes(count: int) -> str:
    return f"{count:,} {'node' if count == 1 else 'nodes'}"
