"""What a caller hears while a plan is in the making."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """A moment of the search: the best so far, the proved bound, and how far it is.

    ``incumbent_seconds`` is None until something fits.
    """

    incumbent_seconds: float | None
    bound_seconds: float
    layouts_done: int
    layouts_total: int
