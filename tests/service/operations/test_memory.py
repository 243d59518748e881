"""Threads of the service take memory from one heap."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_HEAPS = """
import ctypes, threading
from service.operations import memory
{call}
library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
together = threading.Barrier(4)
def take():
    together.wait()
    library.malloc(100)
    together.wait()
threads = [threading.Thread(target=take) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
out = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, out)
library.fflush(out)
"""


def heaps(call: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _HEAPS.format(call=call)], capture_output=True, text=True, check=True
    )
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has such heaps")
def test_threads_share_one_heap() -> None:
    assert heaps("") > 1
    assert heaps("memory.share_one_heap()") == 1
