"""A plan of the command line on all cores of this machine: parts of a large search side by side.

What comes of each part does not depend on the others, so the plan is that of one process that works
them out in turn, as of a service that deals them to its solver processes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

from pydantic import BaseModel

from solver.plan import Plan
from solver.progress import Progress
from solver.request import PlanRequest


def plan_on_all_cores(
    request: PlanRequest, progress: Callable[[Progress], None] | None = None
) -> Plan:
    """The best plan that a request admits, as ``planner.plan``."""
    from solver import planner

    deadline = time.time() + request.solver.time_limit_seconds
    begun = planner.begin(request, progress=progress)
    if isinstance(begun, Plan):
        return begun
    ends = outcomes(request, begun.parts, deadline)
    return planner.gather(request, begun.state, ends, time_limit_seconds=deadline - time.time())


def outcomes(
    request: PlanRequest, parts: Sequence[BaseModel], deadline: float
) -> list[dict[str, Any]]:
    """What comes of each part, in processes of their own where there are several cores.

    ``deadline``: when all should be done, in seconds of the clock that processes share.
    """
    told = [part.model_dump_json() for part in parts]
    work_out = partial(_outcome, request.model_dump_json(), deadline)
    processes = min(cores(), len(told))
    if processes < 2:
        return [work_out(part) for part in told]
    # Fresh processes, for this one has a thread that draws.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return list(pool.map(work_out, told))


def cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _outcome(request: str, deadline: float, part: str) -> dict[str, Any]:
    from solver import planner

    answer = planner.part(
        PlanRequest.model_validate_json(request),
        json.loads(part),
        time_limit_seconds=deadline - time.time(),
    )
    return dict(answer.model_dump(mode="json"))
