"""What became of every legal layout, as one bar."""

from __future__ import annotations

from service.console.quantities import percent
from service.pages.pictures.svg import WIDTH, Drawing
from solver.plan import SolverReport

_HEIGHT, _LEAST = 30.0, 3.0


def parts(report: SolverReport) -> list[tuple[int, str, str]]:
    """Number, style and words of each fate that some layout met."""
    solved = (
        report.layouts_considered
        - report.layouts_pruned
        - report.layouts_infeasible
        - report.layouts_unfinished
    )
    found = [
        (solved, "ours", "solved to the end"),
        (report.layouts_pruned, "theirs", "ruled out by a proved bound"),
        (report.layouts_infeasible, "not-fitting", "do not fit in memory"),
        (report.layouts_unfinished, "unfinished", "not finished in time; their bounds count"),
    ]
    return [part for part in found if part[0] > 0]


def layouts_considered(report: SolverReport) -> Drawing:
    """The bar; a fate that few layouts met is still seen."""
    total = report.layouts_considered
    said = ", ".join(f"{count:,} {words}" for count, _, words in parts(report))
    drawing = Drawing(
        "What became of the legal layouts",
        f"{said}.",
        height=_HEIGHT,
        legend=[(style, f"{count:,} {words}") for count, style, words in parts(report)],
    )
    widths = [max(count / total * WIDTH, _LEAST) for count, _, _ in parts(report)]
    scale = WIDTH / sum(widths)
    x = 0.0
    for (count, style, words), width in zip(parts(report), widths, strict=True):
        tip = f"{count:,} {words}: {percent(count / total)}"
        drawing.rectangle(x, 0, width * scale, _HEIGHT, style, tip)
        x += width * scale
    return drawing
