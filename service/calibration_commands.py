"""``stagecut calibrate``: efficiencies fitted to measured runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.command_line import AsJson, problems_as_exit_status, read_file, show


def add_to(app: typer.Typer) -> None:
    """Give the command to ``app``."""
    app.command("calibrate")(calibrate)


def calibrate(
    file: Annotated[
        str,
        typer.Argument(metavar="RUNS", help="A measured run as JSON on each line; - reads stdin."),
    ],
    name: Annotated[str, typer.Option(help="What the calibration is to be called.")] = "own",
    output: Annotated[
        str | None,
        typer.Option(
            "--output", metavar="FILE", help="Write it here, for a request's `calibration`."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the efficiencies of a device to measured runs."""
    from service.console.calibrations import calibration_page
    from service.console.standard_output import kept_for_answers
    from service.measured_file import runs_in
    from service.reading import validate
    from solver import planner
    from solver.calibrate.measured import RunsToFit

    with problems_as_exit_status(as_json):
        runs = runs_in(read_file(file))
        named = validate(RunsToFit, {"name": name, "runs": [_plain(runs[0])]}).name
        with kept_for_answers():
            found = planner.calibrate(RunsToFit(name=named, runs=runs))
        if output is not None:
            Path(output).write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
        show(found.model_dump_json(indent=2) if as_json else calibration_page(found))


def _plain(run: object) -> object:
    return run.model_dump(mode="json", exclude_unset=True) if hasattr(run, "model_dump") else run
