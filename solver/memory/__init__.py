"""Bytes allocated on every device through an iteration: a sweep of op by op, task by task."""

from __future__ import annotations

from solver.memory.allocated import Allocated, Moment, allocated

__all__ = ["Allocated", "Moment", "allocated"]
