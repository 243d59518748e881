"""`stagecut store`: finished plans as JSON lines, out of the database and into it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from service.command_line import StoreUrl, problems_as_exit_status

app = typer.Typer(help="Carry finished plans between databases.", no_args_is_help=True)

Lines = Annotated[str, typer.Argument(metavar="FILE", help="JSON lines; - is the standard stream.")]


@app.command("export")
def export_lines(file: Lines, store: StoreUrl = None) -> None:
    """Write every finished plan, with its request, to a file."""
    from service.carrying import export
    from service.settings import Settings
    from service.store import Store

    opened = Store(store or Settings().database_url)
    try:
        if file == "-":
            count = export(opened, sys.stdout)
        else:
            with Path(file).open("w", encoding="utf-8") as stream:
                count = export(opened, stream)
    finally:
        opened.close()
    typer.echo(f"{count} plans exported.", err=True)


@app.command("import")
def import_lines(file: Lines, store: StoreUrl = None) -> None:
    """Add the plans of such a file. Those that are there already stay as they are."""
    from service import carrying
    from service.command_line import read_file
    from service.migrate import migrate
    from service.settings import Settings
    from service.store import Store

    opened = Store(store or Settings().database_url)
    try:
        with problems_as_exit_status(False):
            migrate(opened)
            new, known = carrying.import_lines(opened, read_file(file).splitlines())
    finally:
        opened.close()
    typer.echo(f"{new} plans imported, {known} were there.", err=True)
