"""What a block keeps and what it recomputes: the frontier of choices, and named policies."""

from __future__ import annotations

from solver.recompute.choice import Choice, choice_keeping, keep_all, needed_tensors
from solver.recompute.frontier import Frontier, frontier, frontier_of

__all__ = [
    "Choice",
    "Frontier",
    "choice_keeping",
    "frontier",
    "frontier_of",
    "keep_all",
    "needed_tensors",
]
