"""``stagecut export``, ``project``, ``import``, ``rehearse``: plans in frameworks' hands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from service.command_line import (
    INFEASIBLE,
    AsJson,
    PlanName,
    RequestFile,
    ServerUrl,
    StoreUrl,
    problems_as_exit_status,
    read_file,
    show,
)


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(export)
    app.command()(project)
    app.command("import")(import_configuration)
    app.command()(rehearse)


def export(
    plan: PlanName,
    framework: Annotated[
        str, typer.Option("--as", metavar="FRAMEWORK", help="Such as megatron-lm.")
    ],
    launcher: Annotated[
        str | None, typer.Option("--launch", metavar="HOW", help="torchrun, slurm or volcano.")
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="FOLDER", help="Write files here instead.")
    ] = None,
    request: RequestFile = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Write a plan for a framework: flags, a file, a job."""
    from service.console.exports import shown, write_into
    from service.exporting import exported

    with problems_as_exit_status(as_json):
        files = exported(plan, framework, launcher, request=request, store=store, server=server)
        if into:
            write_into(into, files)
        elif as_json:
            show(files.export.model_dump_json(indent=2))
        else:
            show(shown(files))
        for note in files.export.notes:
            sys.stderr.write(f"stagecut: {note}\n")
        if not files.export.exact:
            sys.stderr.write(
                f"  `stagecut project {plan} --onto {framework}` says what it can run of the plan, "
                "and what that costs.\n"
            )


def project(
    plan: PlanName,
    framework: Annotated[
        str, typer.Option("--onto", metavar="FRAMEWORK", help="Such as megatron-lm.")
    ],
    request: RequestFile = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Say what a framework can run of a plan. And what the rest costs."""
    from service.console.projections import page
    from service.projecting import projected

    with problems_as_exit_status(as_json):
        found = projected(plan, framework, request=request, store=store, server=server)
        show(found.model_dump_json(indent=2) if as_json else page(found))
        if found.projected is None:
            raise typer.Exit(INFEASIBLE)


def import_configuration(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Flags, YAML, JSON or TOML."),
    ],
    request: Annotated[
        str,
        typer.Option("--request", metavar="FILE", help="A request with the cluster, and model."),
    ],
    as_json: AsJson = False,
    server: ServerUrl = None,
) -> None:
    """Compare what you run today with the best plan. For its framework, and of all."""
    from service.console.standard_output import kept_for_answers
    from service.importing import imported, in_words
    from service.reading import parse

    with problems_as_exit_status(as_json):
        given = parse(read_file(request))
        base = given if isinstance(given, dict) else {}
        text = read_file(file).decode("utf-8", "replace")
        if server:
            from service.client import Client

            with Client(server) as client:
                found = client.import_configuration({**base, "configuration": text})
        else:
            with kept_for_answers():
                found = imported(text, base)
        show(found.model_dump_json(indent=2) if as_json else in_words(found))


def rehearse(
    plan: PlanName,
    layers: Annotated[int, typer.Option(min=1, max=256, help="Layers to run at most.")] = 12,
    micro_batches: Annotated[int, typer.Option(min=1, max=256, help="Likewise.")] = 8,
    hidden: Annotated[
        int, typer.Option(min=32, max=4096, help="Width of the small model, a multiple of 32.")
    ] = 128,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Iterations; median.")] = 3,
    as_json: AsJson = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Run a plan for real on a small model, on CPUs. Needs PyTorch."""
    from service.console.rehearsals import as_document, page
    from service.rehearsing import rehearsed

    with problems_as_exit_status(as_json):
        found = rehearsed(plan, layers, micro_batches, hidden, repeats, store=store, server=server)
        show(as_document(found) if as_json else page(found))
