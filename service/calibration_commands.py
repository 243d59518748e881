"""``stagecut calibrate``: efficiencies fitted to measured runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.command_line import (
    AsJson,
    ServerUrl,
    StoreUrl,
    one_of_store_and_server,
    problems_as_exit_status,
    read_file,
    show,
)

if TYPE_CHECKING:
    from solver.calibrate.measured import RunsToFit
    from solver.calibrations import Calibration


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
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Fit the efficiencies of a device to measured runs."""
    from service.console.calibrations import calibration_page
    from service.measured_file import runs_in
    from service.reading import validate
    from solver.calibrate.measured import RunsToFit

    one_of_store_and_server(store, server)
    with problems_as_exit_status(as_json):
        runs = runs_in(read_file(file))
        named = validate(RunsToFit, {"name": name, "runs": [_plain(runs[0])]}).name
        found = _fitted(RunsToFit(name=named, runs=runs), store, server)
        if output is not None:
            Path(output).write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
        show(found.model_dump_json(indent=2) if as_json else calibration_page(found))


def _fitted(runs: RunsToFit, store: str | None, server: str | None) -> Calibration:
    """The calibration; kept where ``store`` or ``server`` says."""
    if server:
        from service.client import Client

        with Client(server, timeout_seconds=600.0) as client:
            return client.calibrate(runs)
    if store:
        from service.local import calibrate_with_store

        return calibrate_with_store(runs, store)
    from service.console.standard_output import kept_for_answers
    from solver import planner

    with kept_for_answers():
        return planner.calibrate(runs)


def _plain(run: object) -> object:
    return run.model_dump(mode="json", exclude_unset=True) if hasattr(run, "model_dump") else run
