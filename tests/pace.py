"""How fast this machine is at the moment, so that a limit on work holds on any other too."""

from __future__ import annotations

import time

_ROUNDS = 5
_REFERENCE_SECONDS = 0.020
"""Processor time of the work below on the machine on which the limits were chosen."""


def pace() -> float:
    """How many times slower than the machine of the limits this one is now; at least 1.

    Processor time, so that what else runs counts only in so far as it slows the processor down.
    """
    return max(1.0, min(_seconds() for _ in range(_ROUNDS)) / _REFERENCE_SECONDS)


def _seconds() -> float:
    """Of a fixed piece of work of the usual kind: numbers, texts and tables."""
    started = time.process_time()
    table = {}
    for number in range(20_000):
        table[f"{number:05}"] = (number * 1.5, number % 7)
    assert sum(first for first, _ in table.values()) > 0
    assert len(sorted(table, reverse=True)) == len(table)
    return time.process_time() - started
