"""Seconds of work on a device, waiting for it before and after."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")

FLUSHED_BYTES = 1 << 28
"""Cleared before each measurement on a GPU: more than any cache holds, and time enough for the host
to enqueue what is measured (as Triton's ``do_bench`` does).
"""


class Clock:
    """Measures on one device; CPUs by the wall, GPUs between events on their stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._flushed = (
            torch.empty(FLUSHED_BYTES, dtype=torch.int8, device=device)
            if device.type == "cuda"
            else None
        )

    def seconds(self, work: Callable[[], Result]) -> tuple[Result, float]:
        """What ``work`` makes, and the seconds that the device needs for it."""
        if self._flushed is None:
            self._wait()
            started = time.perf_counter()
            result = work()
            self._wait()
            return result, time.perf_counter() - started
        self._flushed.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        result = work()
        end.record()
        end.synchronize()
        return result, start.elapsed_time(end) / 1000.0

    def _wait(self) -> None:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
