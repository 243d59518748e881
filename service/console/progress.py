"""The line that says how far a solve is, while somebody looks at a terminal."""

from __future__ import annotations

import dataclasses
import time
from threading import Timer
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from service.console.quantities import duration, percent
from service.documents import Progress

_QUIET_SECONDS = 0.7


def aside() -> Console:
    """Where people are told how far something is: standard error, so that answers stay alone."""
    return Console(stderr=True, highlight=False)


class ProgressLine:
    """A bar of layouts done on ``console`` if that is a terminal, and nothing otherwise.

    Called with the planner's progress (a dataclass) or the service's (:class:`Progress`). What is
    over within ``_QUIET_SECONDS`` shows nothing.
    """

    def __init__(self, console: Console, doing: str = "Planning") -> None:
        self._started = time.monotonic()
        self._shown = console.is_terminal
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[said]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(doing, total=None, said="", visible=False)
        self._timer = Timer(_QUIET_SECONDS, self._appear)

    def __enter__(self) -> Self:
        if self._shown:
            self._bar.start()
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._shown:
            self._bar.stop()

    def __call__(self, progress: Any) -> None:
        """Show how far it is."""
        if self._shown:
            known = _document(progress)
            self._bar.update(
                self._task,
                total=known.layouts_total or None,
                completed=known.layouts_done or 0,
                said=progress_text(known, time.monotonic() - self._started),
            )

    def _appear(self) -> None:
        self._bar.update(self._task, visible=True)


class PartsLine(ProgressLine):
    """The same for what is worked out in parts, such as the sizes of a capacity curve."""

    def __call__(self, progress: Any) -> None:
        """Show how many parts are done."""
        if self._shown:
            known = _document(progress)
            done, of = known.layouts_done or 0, known.layouts_total or 0
            elapsed = duration(time.monotonic() - self._started)
            self._bar.update(
                self._task, total=of or None, completed=done, said=f"{elapsed}: {done} of {of}"
            )


class CountLine(ProgressLine):
    """The same for many solves: how many are done."""

    def __call__(self, done: int, of: int) -> None:  # type: ignore[override]
        """Show how many."""
        if self._shown:
            said = f"{done} of {of} cases"
            self._bar.update(self._task, total=of, completed=done, said=said)


def progress_text(progress: Progress, elapsed_seconds: float) -> str:
    """``3.10 s: 40 of 112 layouts, best 14.2 s, at most 2.1% from the optimum``."""
    parts = []
    if progress.layouts_done is not None:
        of_all = f" of {progress.layouts_total}" if progress.layouts_total else ""
        parts.append(f"{progress.layouts_done}{of_all} layouts")
    best, bound = progress.incumbent_seconds, progress.bound_seconds
    if best is not None:
        parts.append(f"best {duration(best)}")
        if bound is not None and best > 0:
            parts.append(f"at most {percent(max(0.0, 1 - bound / best))} from the optimum")
    said = f": {', '.join(parts)}" if parts else ""
    return f"{duration(elapsed_seconds)}{said}"


def _document(progress: Any) -> Progress:
    if isinstance(progress, Progress):
        return progress
    if dataclasses.is_dataclass(progress) and not isinstance(progress, type):
        return Progress.model_validate(dataclasses.asdict(progress))
    return Progress.model_validate(progress)
