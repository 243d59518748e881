"""What schedulers are told, as tables: capacity curves, and what to do about failures."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from service.console.layouts import layout_in_short
from service.console.quantities import duration
from solver.capacity.documents import Curve
from solver.contingencies.documents import ContingencyAnswer

_AT_ONCE_SECONDS = 1e-3


def titled(title: str, *columns: str, words: tuple[str, ...] = ()) -> Table:
    """An empty table under a title; columns but those of ``words`` stand to the right."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        caption_style="none",
    )
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right")
    return table


def curve_table(curve: Curve) -> Table:
    """A capacity curve, a line per size, and under it the sizes worth knowing."""
    placed = "" if curve.placement == "any" else f", {curve.placement.replace('-', ' ')}"
    table = titled(
        f"{curve.device}{placed}",
        "nodes",
        "iteration",
        "samples/s",
        "per added\nnode",
        "best plan",
        words=("best plan",),
    )
    for point in curve.points:
        if not point.feasible or point.layout is None or point.iteration_seconds is None:
            table.add_row(str(point.nodes), "", "", "", "nothing fits")
            continue
        plan = layout_in_short(point.layout)
        table.add_row(
            str(point.nodes),
            duration(point.iteration_seconds),
            f"{point.samples_per_second:.3g}",
            "" if point.gain_per_node is None else f"+{point.gain_per_node:.3g}",
            plan if point.useful else f"wasteful: {point.uses_nodes} nodes do as well",
        )
    marks = {"the smallest that fits": curve.smallest_feasible, "the knee": curve.knee}
    said = [f"{nodes} {_nodes(nodes)}: {mark}" for mark, nodes in marks.items() if nodes]
    table.caption = "; ".join(said)
    return table


def _nodes(count: int) -> str:
    return "node" if count == 1 else "nodes"


def contingency_tables(answer: ContingencyAnswer) -> Iterator[Table | Text]:
    """The best action of every class of failures, then the plan of every node count."""
    table = titled(
        "When these fail",
        "failure",
        "sets",
        "best action",
        "speed",
        "takes",
        "better than\nwaiting from",
        words=("failure", "best action"),
    )
    for found in answer.classes:
        if not found.courses:
            table.add_row(found.title, str(found.node_sets), "nothing fits", "", "", "")
            continue
        best = found.courses[0]
        plan = answer.plans[best.plan]
        waiting = best.break_even_seconds
        table.add_row(
            found.title,
            str(found.node_sets),
            plan.action.value.replace("_", " "),
            f"{plan.throughput:.1%}",
            duration(best.transition_seconds),
            "at once" if waiting < _AT_ONCE_SECONDS else duration(waiting),
        )
    yield table
    table = titled("With so many nodes left", "nodes", "speed", "best plan", words=("best plan",))
    for template in answer.templates:
        reduced = None if template.plan is None else answer.plans[template.plan]
        if reduced is None or reduced.layout is None:
            table.add_row(str(template.nodes), "", "nothing fits")
            continue
        on = "" if reduced.uses_nodes == template.nodes else f", on {reduced.uses_nodes} nodes"
        table.add_row(
            str(template.nodes), f"{reduced.throughput:.1%}", layout_in_short(reduced.layout) + on
        )
    yield table
    yield from (Text(note) for note in answer.notes)
