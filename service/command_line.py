"""What every command shares: its options, how it reads and prints, and its exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from service.problems import Problem
    from solver.request import PlanRequest

INFEASIBLE = NOT_AS_EXPECTED = 1
BAD_REQUEST, FAILED = 2, 3

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
ServerUrl = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="Ask this service instead.")
]
StoreUrl = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Look in, and add to, this database."),
]
CalibrationName = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="NAME",
        help="Use it: a name (NAME@VERSION for an older one) at --store or --server, or a file of "
        "`calibrate --output`.",
    ),
]
PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="A plan's JSON file, or its id.")]
RequestFile = Annotated[
    str | None, typer.Option("--request", metavar="FILE", help="The request that was planned.")
]


def read_file(file: str) -> bytes:
    """The bytes of ``file``; ``-`` is standard input.

    Raises:
        ProblemError: It cannot be read.
    """
    from service.problems import ProblemError, problem

    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ProblemError(
            problem(400, "no-input", "The file cannot be read", f"{file}: {error.strerror}.")
        ) from None


def one_of_store_and_server(store: str | None, server: str | None) -> None:
    """Refuse both at once."""
    if store and server:
        raise typer.BadParameter("give --store or --server, not both")


def with_calibration(request: PlanRequest, named: str | None) -> PlanRequest:
    """The request with the calibration of ``--calibration`` in the place of its own.

    Raises:
        ProblemError: It is a file that cannot be read, or holds none.
    """
    if named is None:
        return request
    from service.reading import parse, validate
    from solver.calibrations import Calibration

    if Path(named).suffix == ".json":
        calibration = validate(Calibration, parse(read_file(named)))
    else:
        name, _, version = named.partition("@")
        calibration = validate(Calibration, {"name": name, "version": version or None})
    return request.model_copy(update={"calibration": calibration})


def show(shown: RenderableType) -> None:
    """Print to standard output; plain text without a console."""
    from rich.console import Console

    if isinstance(shown, str):
        sys.stdout.write(shown + "\n")
    else:
        Console(highlight=False).print(shown)


@contextmanager
def problems_as_exit_status(as_json: bool) -> Iterator[None]:
    """Print a problem for whoever asked, and end with the status that says whose it is."""
    from service.problems import ProblemError, from_stagecut_error, problem
    from solver.errors import StagecutError

    try:
        yield
        return
    except ProblemError as error:
        found = error.problem
    except StagecutError as error:
        found = from_stagecut_error(error)
    except Exception as error:
        if not type(error).__module__.startswith("httpx2"):
            raise
        found = problem(503, "no-service", "The service cannot be reached", f"{error}")
    _print_problem(found, as_json)
    raise typer.Exit(BAD_REQUEST if found.status < 500 else FAILED)


def _print_problem(problem: Problem, as_json: bool) -> None:
    if as_json:
        show(json.dumps(json.loads(problem.to_json()), indent=2))
    for part in problem.parts:
        where = f"{part.field}: " if part.field else ""
        sys.stderr.write(f"stagecut: {where}{part.detail}\n")
        if part.hint:
            sys.stderr.write(f"  {part.hint}\n")
