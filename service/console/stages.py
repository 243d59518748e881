"""The table of stages: a row per run of stages that do the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from service.console.quantities import gibibytes, milliseconds
from service.console.recipes import Recipes
from solver.plan import Stage

_BAR_CELLS = 8
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WIDE_COLUMNS = 110
_ROOMY_COLUMNS = 79


def stages_table(
    stages: Sequence[Stage], limit: float | None, options: ConsoleOptions
) -> Iterator[Table | Text]:
    """The table, then what the letters in it stand for. It fits 80 columns without wrapping."""
    wide, roomy = options.max_width >= _WIDE_COLUMNS, options.max_width >= _ROOMY_COLUMNS
    recipes = Recipes()
    rows = _rows(stages, recipes)
    table = Table(
        box=box.ASCII if options.ascii_only else box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1) if roomy else 0,
        collapse_padding=True,
    )
    table.add_column("stage", justify="right")
    table.add_column("blocks")
    offloads = any(entry.offloaded for stage in stages for entry in stage.recompute)
    table.add_column("recomputed, offloaded" if offloads else "recomputed", ratio=1, min_width=10)
    table.add_column("forward\nms", justify="right")
    table.add_column("backward\nms", justify="right")
    if wide:
        table.add_column("recompute\nms", justify="right")
        table.add_column("in flight", justify="right")
    differ = limits_differ(stages)
    of_limit = f" of {gibibytes(limit)}" if limit and not differ else ""
    table.add_column(f"memory\nGiB{of_limit}", justify="right", no_wrap=True)
    for row in rows:
        first, last = row.stages[0], row.stages[-1]
        cells: list[RenderableType] = [
            _span(index_of(first), index_of(last)) + _kind(first.device),
            row.blocks,
            row.recomputed,
            milliseconds(first.forward_seconds),
            milliseconds(first.backward_seconds),
        ]
        if wide:
            cells += [
                milliseconds(first.recompute_seconds),
                _span(str(first.in_flight), str(last.in_flight)),
            ]
        peak = max(stage.peak_memory_bytes for stage in row.stages)
        memory = _memory(peak, first.memory_limit_bytes or limit, options)
        if differ and first.memory_limit_bytes:
            memory.append(f" of {gibibytes(first.memory_limit_bytes)}")
        table.add_row(*cells, memory)
    yield table
    if recipes.legend:
        yield _legend(recipes)
        yield Text()


def limits_differ(stages: Sequence[Stage]) -> bool:
    """Whether the stages' devices have different amounts of usable memory."""
    return len({stage.memory_limit_bytes for stage in stages} - {None}) > 1


def index_of(stage: Stage) -> str:
    """``3``, or ``3.1`` for the second chunk of device 3."""
    return str(stage.index) if stage.chunk is None else f"{stage.index}.{stage.chunk}"


def bar(share: float, cells: int, ascii_only: bool) -> str:
    """A bar that is full only when nothing is left."""
    if ascii_only:
        return ("#" * min(cells, int(share * cells))).ljust(cells, ".")
    eighths = min(8 * cells, int(share * 8 * cells))
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(cells, "░")


@dataclass(frozen=True)
class _Row:
    """Consecutive stages that hold the same blocks, recompute the same and take the same time."""

    stages: list[Stage]
    blocks: str
    recomputed: str


def _rows(stages: Sequence[Stage], recipes: Recipes) -> list[_Row]:
    def same(stage: Stage) -> tuple[str, str, str, str, str]:
        return (
            ", ".join(_counted(name, count) for name, count in stage.blocks),
            recipes.of(stage),
            milliseconds(stage.forward_seconds),
            milliseconds(stage.backward_seconds),
            stage.device or "",
        )

    return [
        _Row(list(run), blocks, recomputed)
        for (blocks, recomputed, *_), run in groupby(stages, key=same)
    ]


def _kind(device: str | None) -> str:
    """What the stages run on, in short, where they differ."""
    return "" if device is None else f" {device.split('-')[0]}"


def _legend(recipes: Recipes) -> Table:
    legend = Table.grid(padding=(0, 1))
    for letter, recipe in recipes.legend:
        legend.add_row(Text(letter, style="bold"), recipe)
    return legend


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def _counted(name: str, count: int) -> str:
    return f"{count} {name}" if count > 1 else name


def _memory(peak: float, limit: float | None, options: ConsoleOptions) -> Text:
    amount = f"{gibibytes(peak):>6}"
    if not limit:
        return Text(amount)
    share = peak / limit
    colour = "red" if share > 1 else "yellow" if share > 0.97 else "green"
    return Text.assemble((bar(share, _BAR_CELLS, options.ascii_only), colour), amount)
