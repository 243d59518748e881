"""On what terms a plan is asked for: how urgent it is, and until when it is of use.

Terms say when work is done, not what comes of it: they are no part of a plan's id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Priority(StrEnum):
    """Who goes first when there is more to solve than hands."""

    INTERACTIVE = "interactive"
    BATCH = "batch"

    @property
    def rank(self) -> int:
        """The priority of a job; the higher goes first."""
        return 10 if self is Priority.INTERACTIVE else 0


@dataclass(frozen=True)
class Terms:
    """``deadline_at`` is in seconds since the epoch; None is never."""

    priority: Priority = Priority.INTERACTIVE
    deadline_at: float | None = None


USUAL = Terms()
