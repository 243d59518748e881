"""Plans many sizes of a job, in processes that end with this one."""

from __future__ import annotations

import ctypes
import itertools
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from solver.capacity.sizes import Size, planned
from solver.request import PlanRequest

_FEWEST_FOR_PROCESSES = 9

APART = 4
"""How many places before a size those are whose plans it must beat: they are done before it is
begun, however many processes there are and whichever of them is fastest, so that the same comes of
it everywhere."""


@dataclass(frozen=True)
class Limits:
    """When a size's search stops, and when (monotonic seconds) all of them do.

    ``seconds_per_size``: None for an equal share of the time left.
    """

    relative_gap: float
    seconds_per_size: float | None
    deadline: float


class Planners:
    """Plans sizes, here or in processes that end with this one."""

    def __init__(self, sizes: int, processes: int | None = None) -> None:
        """``sizes``: how many will be planned; few of them are not worth a process."""
        workers = processes or os.cpu_count() or 1
        self._to_plan = sizes
        if sizes < _FEWEST_FOR_PROCESSES:
            workers = 1
        self._pool: ProcessPoolExecutor | None = None
        self._workers = workers
        if workers > 1:
            self._pool = ProcessPoolExecutor(
                workers, multiprocessing.get_context("spawn"), initializer=_die_with_parent
            )

    def __enter__(self) -> Planners:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _seconds(self, limits: Limits) -> float:
        """How long the next size may take."""
        left = limits.deadline - time.monotonic()
        share = limits.seconds_per_size or left * self._workers / max(self._to_plan, 1)
        self._to_plan -= 1
        return min(left, share)

    def plan(
        self,
        job_of: Callable[[int], PlanRequest],
        counts: Iterable[int],
        limits: Limits,
        report: Callable[[], None],
    ) -> list[Size]:
        """Every size in ascending order, as many at a time as there are processes, but no more
        than ``APART``.

        ``job_of``: the job on so many nodes.
        """
        sizes: dict[int, Size] = {}
        order = sorted(counts)
        waiting = order[::-1]
        smaller = dict(itertools.pairwise([*waiting, 0]))
        before = {nodes: order[: max(i - APART + 1, 0)] for i, nodes in enumerate(order)}
        running: dict[Future[Size], int] = {}
        while waiting or running:
            while (
                waiting
                and len(running) < self._workers
                and all(nodes in sizes for nodes in before[waiting[-1]])
            ):
                nodes = waiting.pop()
                known = (sizes[each].seconds for each in before[nodes])
                ceiling = min((seconds for seconds in known if seconds), default=math.inf)
                left, job = self._seconds(limits), job_of(nodes)
                asked = (job, nodes, ceiling, limits.relative_gap, left, smaller[nodes])
                if left <= 0:
                    sizes[nodes] = Size(nodes, finished=False)
                elif self._pool is None:
                    sizes[nodes] = planned(*asked)
                    report()
                else:
                    running[self._pool.submit(planned, *asked)] = nodes
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                sizes[running.pop(future)] = future.result()
                report()
        return [sizes[nodes] for nodes in sorted(sizes)]


def _die_with_parent() -> None:
    """End a planning process when the one that started it ends, however that happens (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
