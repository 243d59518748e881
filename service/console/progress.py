"""The line that says how far a solve is, while somebody looks at a terminal."""

from __future__ import annotations

import dataclasses
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console
from rich.status import Status

from service.console.quantities import duration, percent
from service.documents import Progress


class ProgressLine:
    """Shows progress on ``console`` if that is a terminal, and nothing otherwise.

    Called with the planner's progress (a dataclass) or the service's (:class:`Progress`).
    """

    def __init__(self, console: Console) -> None:
        self._started = time.monotonic()
        self._status = Status("Planning", console=console) if console.is_terminal else None

    def __enter__(self) -> ProgressLine:
        self._context.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)

    def __call__(self, progress: Any) -> None:
        """Show how far it is."""
        if self._status is not None:
            known = _document(progress)
            self._status.update(progress_text(known, time.monotonic() - self._started))

    @property
    def _context(self) -> AbstractContextManager[Any]:
        return self._status if self._status is not None else nullcontext()


def progress_text(progress: Progress, elapsed_seconds: float) -> str:
    """``Planning, 3.10 s: 40 of 112 layouts, best 14.2 s, at most 2.1% from the optimum``."""
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
    return f"Planning, {duration(elapsed_seconds)}{said}"


def _document(progress: Any) -> Progress:
    if isinstance(progress, Progress):
        return progress
    if dataclasses.is_dataclass(progress) and not isinstance(progress, type):
        return Progress.model_validate(dataclasses.asdict(progress))
    return Progress.model_validate(progress)
