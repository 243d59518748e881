"""Beside the plan: where its time goes, what others would get, layouts that lost, what helps."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from service.console.layouts import layout_in_short
from service.console.quantities import duration, percent, times
from service.console.stages import bar, index_of
from solver.plan import Breakdown, Plan, Restriction

_BAR_CELLS = 8
_SIDE_BY_SIDE_COLUMNS = 78
_MOST_LAYOUTS = 5
_NO_COST = 5e-5


def time_and_others(plan: Plan, options: ConsoleOptions) -> Iterator[RenderableType]:
    """Where the time goes, and others on the same costs: side by side where there is room."""
    assert plan.breakdown is not None
    parts: list[RenderableType] = [time_table(plan.breakdown, options)]
    if plan.baselines:
        parts.append(_others(plan))
    if len(parts) > 1 and options.max_width >= _SIDE_BY_SIDE_COLUMNS:
        both = Table.grid(padding=(0, 4, 0, 0))
        both.add_row(*parts)
        parts = [both]
    for part in parts:
        yield part
        yield Text()


def time_table(breakdown: Breakdown, options: ConsoleOptions) -> RenderableType:
    """The lines of the breakdown, the longest first."""
    parts = [(name, value) for name, value in breakdown.model_dump().items() if value > 0]
    total = sum(value for _, value in parts)
    table = _columns(3)
    for name, value in sorted(parts, key=lambda part: -part[1]):
        share = value / total
        filled = bar(share, _BAR_CELLS, options.ascii_only)
        table.add_row(f"  {name.replace('_', ' ')}", filled, percent(share))
    return _titled("Where the time goes", table)


def _others(plan: Plan) -> RenderableType:
    table = _columns(2)
    for name, baseline in plan.baselines.items():
        if baseline.fits and baseline.iteration_seconds is not None and plan.iteration_seconds:
            ratio = baseline.iteration_seconds / plan.iteration_seconds
            said = f"{duration(baseline.iteration_seconds)}  {times(ratio)}"
        else:
            said = "does not fit"
        table.add_row(f"  {name}", said)
    return _titled("Others on the same costs", table)


def restriction(found: Restriction) -> RenderableType:
    """What the framework is told to recompute, and what it costs that it runs the plan."""
    said = [
        f"{field} {' '.join(value) if isinstance(value, list) else value}"
        for field, value in found.setting.items()
    ]
    text = Text(f"{found.framework} recomputes by {', '.join(said)}. " if said else "")
    free = found.iteration_seconds_free
    if free is None:
        text.append(f"{found.framework} costs at most {percent(found.cost)} of time: nothing is ")
        return text.append(f"faster than {duration(found.lower_bound_seconds_free)}.")
    if found.cost < _NO_COST:
        return text.append(f"No plan is faster for not having to run on {found.framework}.")
    text.append(f"{found.framework} costs ").append(f"+{percent(found.cost)}", style="bold")
    return text.append(f" of time: the best plan of all takes {duration(free)}.")


def lost(plan: Plan) -> Iterator[RenderableType]:
    """The best layouts that lost, and by how much."""
    table = _columns(4)
    table.columns[1].justify, table.columns[1].no_wrap = "left", False
    for other in plan.alternatives[:_MOST_LAYOUTS]:
        exact = other.iteration_seconds is not None
        seconds = other.iteration_seconds if exact else other.lower_bound_seconds
        table.add_row(
            " ",
            layout_in_short(other.layout, plan.layout),
            f"{'' if exact else 'at least '}{duration(seconds or 0.0)}",
            f"+{percent(other.slower)}",
        )
    if plan.alternatives:
        yield _titled("Layouts that lost", table)
        yield Text()


def explanation(plan: Plan) -> Iterator[RenderableType]:
    """What decides the time, and what a change would gain."""
    found = plan.explanation
    if found is None:
        return
    stage = index_of(plan.stages[found.bottleneck_stage])
    yield Text(
        f"Stage {stage} decides the time ({percent(found.bottleneck_share)} of the critical "
        f"path), limited by {found.limited_by}."
    )
    if found.what_if:
        table = _columns(2)
        for change in found.what_if:
            table.add_row(f"  {change.change}", f"{change.gain:+.1%} work per second")
        yield Text()
        yield _titled("What would help", table)
    if found.prices:
        table = _columns(2)
        for entry in found.prices:
            best = f" (best: {entry.num_layers})" if entry.num_layers is not None else ""
            cost = "does not fit" if entry.slower is None else f"{entry.slower:+.1%} time"
            table.add_row(f"  {entry.restriction}{best}", cost)
        yield Text()
        yield _titled("What restrictions would cost", table)


def _columns(number: int) -> Table:
    """A table without lines; every column but the first stands to the right."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for column in range(number):
        table.add_column(justify="right" if column else "left", no_wrap=column > 0)
    return table


def _titled(title: str, table: Table) -> RenderableType:
    return Group(Text(title, style="bold"), table)
