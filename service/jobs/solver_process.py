"""The program of a solver process: reads calls from standard input, writes what comes of them.

One JSON object a line, both ways. ``{"ready": true}`` comes first. A call is
``{"call": "plan" | "evaluate" | "check" | "calibrate", "request": {...}}``; what comes back is any
number of ``{"progress": {...}}`` and then one of ``{"answer": "<JSON text>", ...}``,
``{"problem": {...}}`` and ``{"failure": "<traceback>"}``. A large search is only begun by ``plan``:
it gives ``{"parts": ["<JSON text>", ...], "state": "<JSON text>"}``, each of the parts is a call
``part``, and ``gather`` makes the plan of their answers.
With the command line this is the only importer of the planner.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Protocol, cast

from pydantic import BaseModel

from service.problems import from_stagecut_error, problem
from solver.begun import Begun
from solver.calibrate.measured import RunsToFit
from solver.calibrations import Calibration
from solver.errors import StagecutError
from solver.plan import Evaluation, Plan
from solver.request import PlanRequest

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


class Planner(Protocol):
    """What a module must offer to be called here; ``solver.planner`` does."""

    def begin(
        self, request: PlanRequest, *, progress: Callable[[Any], None] | None = None
    ) -> Plan | Begun:
        """The best plan, or the parts of the search for it."""

    def part(
        self,
        request: PlanRequest,
        part: Any,
        *,
        progress: Callable[[Any], None] | None = None,
        time_limit_seconds: float | None = None,
    ) -> BaseModel:
        """What came of a part (plain JSON) of the search."""

    def gather(
        self,
        request: PlanRequest,
        state: Any,
        answers: Sequence[Any],
        *,
        time_limit_seconds: float | None = None,
    ) -> Plan:
        """The plan of a search that was begun, and the answers of its parts (plain JSON)."""

    def evaluate(self, request: PlanRequest) -> Evaluation:
        """Time and memory of the plan that the request describes."""

    def check(self, request: PlanRequest) -> None:
        """Raise if the request cannot be planned for a reason that needs no solving."""

    def calibrate(self, asked: RunsToFit) -> Calibration:
        """The efficiencies of a device, fitted to measured runs."""


def main(module: str, memory_bytes: int) -> None:
    """Serve calls until standard input ends."""
    answers = _private_standard_output()
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service to act on
    planner = cast(Planner, importlib.import_module(module))
    _send(answers, {"ready": True})
    for line in sys.stdin.buffer:
        _send(answers, _served(planner, json.loads(line), answers, memory_bytes))


def _served(
    planner: Planner, message: dict[str, Any], answers: BinaryIO, memory_bytes: int
) -> dict[str, Any]:
    def report(progress: Any) -> None:
        _send(answers, {"progress": _plain(progress)})

    try:
        if message["call"] == "calibrate":
            asked = RunsToFit.model_validate(message["request"])
            return {"answer": planner.calibrate(asked).model_dump_json()}
        if message["call"] in ("part", "gather"):
            return _of_parts(planner, message["call"], message["request"], report)
        if message["call"] not in _PLANNER_CALLS:
            return _studied(planner, message["call"], message["request"], report)
        request = PlanRequest.model_validate(message["request"])
        match message["call"]:
            case "plan":
                return _planned(planner.begin(request, progress=report))
            case "evaluate":
                return {"answer": planner.evaluate(request).model_dump_json()}
            case "check":
                planner.check(request)
                return {"answer": ""}
            case unknown:
                return {"failure": f"no such call: {unknown}"}
    except StagecutError as error:
        return {"problem": from_stagecut_error(error).model_dump(mode="json")}
    except MemoryError:
        return {
            "problem": problem(
                500,
                "solver-out-of-memory",
                "The solver ran out of memory",
                f"Solving needs more than the {memory_bytes / 2**30:.3g} GiB that a solver process"
                " may use.",
                hint="Fix more of the layout, or raise STAGECUT_SOLVER_MEMORY_BYTES.",
            ).model_dump(mode="json")
        }
    except Exception:
        return {"failure": traceback.format_exc()}


_PLANNER_CALLS = ("plan", "evaluate", "check")


def _planned(plan: Plan | Begun) -> dict[str, Any]:
    if isinstance(plan, Begun):
        parts = [part.model_dump_json() for part in plan.parts]
        return {"parts": parts, "state": plan.state.model_dump_json()}
    return {
        "answer": plan.model_dump_json(),
        "status": plan.status.value,
        "iteration_seconds": plan.iteration_seconds,
        "gap": plan.gap,
    }


def _of_parts(
    planner: Planner, call: str, asked: dict[str, Any], report: Callable[[Any], None]
) -> dict[str, Any]:
    """Work out a part of a search, or gather all."""
    request = PlanRequest.model_validate(asked["request"])
    left = max(asked["deadline_at"] - time.time(), 0.0)
    if call == "gather":
        state, answers = asked["state"], asked["answers"]
        return _planned(planner.gather(request, state, answers, time_limit_seconds=left))
    answer = planner.part(request, asked["part"], progress=report, time_limit_seconds=left)
    return {"answer": answer.model_dump_json(), "status": "succeeded"}


def _studied(
    planner: Planner, call: str, request: Any, report: Callable[[Any], None]
) -> dict[str, Any]:
    """What schedulers ask: ``capacity``, ``placement`` and the like, or the check of one.

    A planner may have a ``study`` of its own; usually it is that of ``solver.fleet``.
    """
    from solver import fleet

    kind = call.removeprefix("check-")
    if kind != call:
        fleet.check(kind, request)
        return {"answer": ""}
    study = getattr(planner, "study", fleet.study)
    answer = study(kind, request, report)
    return {"answer": answer.model_dump_json(), "status": getattr(answer, "status", None)}


def _plain(progress: Any) -> Any:
    if dataclasses.is_dataclass(progress) and not isinstance(progress, type):
        return dataclasses.asdict(progress)
    return progress.model_dump(mode="json") if hasattr(progress, "model_dump") else progress


def _send(answers: BinaryIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n")
    answers.flush()


def _private_standard_output() -> BinaryIO:
    """Standard output, kept from what solver libraries print, which goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _die_with_parent() -> None:
    """End this process when the one that started it ends, however that happens (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
