"""Standard output is for answers: what solver libraries print goes to standard error."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_for_answers() -> Iterator[None]:
    """Send what is written to file descriptor 1 to standard error instead, for a while."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C code still holds back belongs to this while
        os.dup2(saved, 1)
        os.close(saved)
