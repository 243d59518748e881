"""Waiting for what happens elsewhere, however long a busy machine takes for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 300.0
"""Only a hang takes longer."""
_LOOK_SECONDS = 0.02


def eventually(look: Callable[[], T], of: str = "it") -> T:
    """The first thing seen that is true."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not (seen := look()):
        assert time.monotonic() < give_up_at, f"{of} did not happen"
        time.sleep(_LOOK_SECONDS)
    return seen
