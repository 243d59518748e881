"""A planner that obeys the model's name: for tests of what happens around a solve."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from solver.begun import Begun
from solver.calibrate.measured import RunsToFit
from solver.calibrations import Calibration
from solver.errors import BadRequest, IllegalLayout
from solver.identity import plan_id
from solver.plan import Evaluation, Plan, Status
from solver.request import PlanRequest

SOLVE_LOG = "TOY_PLANNER_LOG"
"""Names the file to which every solve adds a line; the same name with ``.workers`` says who:
the worker's process and the solver's."""


def gate(log: Path, name: str) -> Path:
    """The file for which solves of the model ``until-NAME`` wait, of who logs to ``log``."""
    return Path(f"{log}.{name}.open")


def check(request: PlanRequest) -> None:
    """Refuse the model ``refused``."""
    if request.model.name == "refused":
        raise IllegalLayout(
            "5 does not divide 64 heads.", field="layout.tensor_parallel", hint="Choose 4 or 8."
        )


def plan(request: PlanRequest, *, progress: Callable[[Any], None] | None = None) -> Plan:
    """Sleep, wait, crash or eat memory, as the model's name says, then answer."""
    name = request.model.name or ""
    _log(name)
    if name.startswith("sleep-"):
        seconds = float(name.removeprefix("sleep-"))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            _get_on(progress)
            time.sleep(min(0.05, seconds))
    elif name.startswith("until-"):
        opened = gate(Path(os.environ[SOLVE_LOG]), name.removeprefix("until-"))
        while not opened.exists():
            _get_on(progress)
            time.sleep(0.02)
    elif name == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "bug":
        raise TypeError("a mistake in the solver")
    elif name == "hungry":
        return Plan(id=str(len(bytearray(2**44))), status=Status.FAILED)
    return Plan(
        id=plan_id(request), status=Status.SUCCEEDED, iteration_seconds=1.5, gap=0.0, fits=True
    )


def _get_on(progress: Callable[[Any], None] | None) -> None:
    if progress is not None:
        progress({"incumbent_seconds": 2.0, "bound_seconds": 1.0})


def begin(request: PlanRequest, *, progress: Callable[[Any], None] | None = None) -> Plan | Begun:
    """A plan, or for the model ``parts-NUMBER-WORK`` parts that each do the work."""
    name = request.model.name or ""
    if not name.startswith("parts-"):
        return plan(request, progress=progress)
    _, number, work = name.split("-", 2)
    _log(name)
    return Begun([Work(place=place, work=work) for place in range(int(number))], Work(place=7))


def part(
    request: PlanRequest,
    part: Any,
    *,
    progress: Callable[[Any], None] | None = None,
    time_limit_seconds: float | None = None,
) -> Work:
    """Do a part's work, as a model of that name would be planned."""
    assert time_limit_seconds is not None
    assert 0 <= time_limit_seconds < request.solver.time_limit_seconds  # begun before
    mine = Work.model_validate(part)
    if mine.work == "refused":
        raise BadRequest("A part is refused.", field="model.name")
    model = request.model.model_copy(update={"name": mine.work})
    plan(request.model_copy(update={"model": model}), progress=progress)
    return mine


def gather(
    request: PlanRequest,
    state: Any,
    answers: Sequence[Any],
    *,
    time_limit_seconds: float | None = None,
) -> Plan:
    """Says in its error which parts there were."""
    assert time_limit_seconds is not None
    known = f"{state['place']} {[answer['place'] for answer in answers]}"
    _log("gather")
    return Plan(
        id=plan_id(request), status=Status.SUCCEEDED, iteration_seconds=1.0, gap=0.0, error=known
    )


class Work(BaseModel):
    """A part, what comes of it, or what was known before."""

    place: int
    work: str = ""


def _log(name: str) -> None:
    if log := os.environ.get(SOLVE_LOG):
        with Path(log).open("a") as solves, Path(f"{log}.workers").open("a") as workers:
            workers.write(f"{os.getppid()} {os.getpid()}\n")
            workers.flush()
            solves.write(f"{name}\n")


def calibrate(runs: RunsToFit) -> Calibration:
    """Always refuse."""
    raise BadRequest(f"{len(runs.runs)} runs cannot be fitted.", field="runs")


def evaluate(request: PlanRequest) -> Evaluation:
    """Always refuse."""
    raise IllegalLayout(f"{request.model.name} cannot be evaluated.", field="layout")
