"""How far something is stands on a terminal, and nowhere else."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from service.console.progress import PartsLine
from solver.progress import Progress


def said(*, terminal: bool) -> str:
    out = StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with PartsLine(console, "Working it out") as line:
        line._appear()
        line(Progress(None, 0.0, 3, 5))
        line._bar.refresh()
    return out.getvalue()


def test_parts_that_are_done_are_counted_on_a_terminal_only() -> None:
    shown = said(terminal=True)
    assert "Working it out" in shown
    assert "3 of 5" in shown
    assert said(terminal=False) == ""
