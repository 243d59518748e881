"""Keeping what solver libraries print out of answers, which may go to standard output."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Whatever C code prints to standard output meanwhile goes nowhere.

    HiGHS reports from inside its mixed-integer search whatever it is told about output.
    """
    try:
        kept = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    c = ctypes.CDLL(None)  # C has a buffer of its own
    sys.stdout.flush()
    c.fflush(None)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        c.fflush(None)
        os.dup2(kept, 1)
        os.close(nowhere)
        os.close(kept)
