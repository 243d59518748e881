"""How the process takes memory from the system."""

from __future__ import annotations

import ctypes
import platform

_ARENA_MAX = -8
"""``M_ARENA_MAX`` of the C library, see mallopt(3)."""


def share_one_heap() -> None:
    """Let all threads take memory from one heap, where the C library is glibc.

    It gives each thread one of its own otherwise, most of which stays empty and resident: Python's
    threads take turns, so they do not wait for each other at a shared one. Called before the first
    thread starts.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
