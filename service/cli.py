"""The command line.

Exit status: 0 answered, 1 infeasible or not as expected, 2 bad request, 3 failed.

Everything heavy is imported by the command that needs it, so that ``--help`` is immediate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service import (
    calibration_commands,
    cluster_commands,
    contingency_command,
    expectation_commands,
    fleet_commands,
    framework_commands,
    key_commands,
    profile_command,
    store_commands,
    verify_command,
)
from service.command_line import (
    FAILED,
    INFEASIBLE,
    NOT_AS_EXPECTED,
    AsJson,
    CalibrationName,
    ServerUrl,
    StoreUrl,
    one_of_store_and_server,
    problems_as_exit_status,
    read_file,
    show,
    with_calibration,
)

if TYPE_CHECKING:
    from solver.plan import Evaluation, Plan
    from solver.request import PlanRequest

app = typer.Typer(
    name="stagecut",
    help="Plans pipeline training: layout, stages and recompute, with a proof.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

calibration_commands.add_to(app)
app.add_typer(cluster_commands.app)
framework_commands.add_to(app)
profile_command.add_to(app)
verify_command.add_to(app)
app.add_typer(key_commands.app, name="keys")
app.add_typer(store_commands.app, name="store")
app.command()(fleet_commands.capacity)
app.command()(fleet_commands.place)
app.command()(fleet_commands.move)
app.command()(contingency_command.contingencies)
expectation_commands.add_to(app)

File = Annotated[str, typer.Argument(metavar="FILE", help="The request as JSON; - reads stdin.")]
HtmlFile = Annotated[
    str | None, typer.Option("--html", metavar="FILE", help="Write the plan as a page to look at.")
]
TraceFile = Annotated[
    str | None,
    typer.Option("--trace", metavar="FILE", help="Write the timeline as a trace for Perfetto."),
]
PicturesFolder = Annotated[
    str | None,
    typer.Option(
        "--pictures", metavar="FOLDER", help="Write every picture of the plan, as SVG and PNG."
    ),
]
WithTimeline = Annotated[bool, typer.Option("--timeline", help="Draw the timeline in text.")]


@app.command()
def plan(
    file: File,
    as_json: AsJson = False,
    calibration: CalibrationName = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
    html: HtmlFile = None,
    trace: TraceFile = None,
    pictures: PicturesFolder = None,
    timeline: WithTimeline = False,
) -> None:
    """Find the best plan for a request."""
    from service.console.progress import ProgressLine, aside
    from service.console.standard_output import kept_for_answers

    one_of_store_and_server(store, server)
    with problems_as_exit_status(as_json):
        request = with_calibration(_read(file), calibration)
        with ProgressLine(aside()) as progress:
            if server:
                from service.client import Client

                with Client(server) as client:
                    answer: Plan = client.plan(request, progress)
            elif store:
                from service.local import plan_with_store

                answer = plan_with_store(request, store, progress)
            else:
                from service.all_cores import plan_on_all_cores

                with kept_for_answers():
                    answer = plan_on_all_cores(request, progress)
        _print_answer(request, answer, as_json)
        if timeline and not as_json:
            from service.console.timeline import Timeline

            show(Timeline(answer))
        if html:
            from service.console.files import write_report

            write_report(request, answer, html)
        if trace:
            from service.console.files import write_trace

            write_trace(request, answer, trace)
        if pictures:
            from service.console.files import write_pictures

            write_pictures(request, answer, pictures)
        raise typer.Exit(_exit_status(answer))


@app.command()
def evaluate(
    file: File,
    as_json: AsJson = False,
    calibration: CalibrationName = None,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Say how long a given layout takes, and whether it fits."""
    one_of_store_and_server(store, server)
    with problems_as_exit_status(as_json):
        request = with_calibration(_read(file), calibration)
        if server:
            from service.client import Client

            with Client(server) as client:
                answer = client.evaluate(request)
        elif store:
            from service.local import evaluate_with_store

            answer = evaluate_with_store(request, store)
        else:
            from service.console.standard_output import kept_for_answers
            from solver import planner

            with kept_for_answers():
                answer = planner.evaluate(request)
        _print_answer(request, answer, as_json)


@app.command()
def batch(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A case as JSON on each line; - reads stdin.")
    ],
    junit: Annotated[str | None, typer.Option(metavar="FILE", help="Write a JUnit file.")] = None,
    summary: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the summary (Markdown) there.")
    ] = None,
    json_file: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the results, for a later --against."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="BATCH", help="Say what changed since: a --json file, or an id at --server."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="What the reports call it.")] = "batch",
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Plan many requests and hold them against expectations. Ends with 1 if one is not met."""
    from service.batches import command
    from service.batches.summary import summary as markdown
    from service.console.progress import CountLine, aside

    one_of_store_and_server(store, server)
    with problems_as_exit_status(False):
        text = read_file(file)
        with CountLine(aside()) as progress:
            done = command.run(text, name, command.Where(server, store), against, progress)
        command.write_reports(done, junit, summary, json_file)
        if summary is None:
            show(markdown(done))
        raise typer.Exit(0 if done.passed else NOT_AS_EXPECTED)


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks one.")] = 8000,
    first: Annotated[
        str | None,
        typer.Option("--plan", metavar="FILE", help="Plan this over HTTP at once, and show it."),
    ] = None,
) -> None:
    """Start the service."""
    from service.serve import serve as run

    with problems_as_exit_status(False):
        run(host, port, _read(first) if first else None)


@app.command()
def worker(
    metrics_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Serve Prometheus metrics there.")
    ] = None,
) -> None:
    """Solve beside a service on PostgreSQL. Any number may run."""
    from service.worker import run

    with problems_as_exit_status(False):
        run(metrics_port)


@app.command()
def health(
    server: Annotated[
        str, typer.Option("--server", metavar="URL", help="The service to ask.")
    ] = "http://127.0.0.1:8000",
) -> None:
    """Ask a service whether it is up."""
    from service.client import Client

    with problems_as_exit_status(False), Client(server, timeout_seconds=5.0) as client:
        show(client.health().status)


@app.command()
def models(as_json: AsJson = False) -> None:
    """List the models that a request can name."""
    from service.catalogues import known_models
    from service.console.catalogues import models_table

    known = known_models()
    show(known.model_dump_json(indent=2) if as_json else models_table(known.models))


@app.command()
def devices(as_json: AsJson = False) -> None:
    """List the devices that a request can name."""
    from service.catalogues import known_devices
    from service.console.catalogues import devices_table

    known = known_devices()
    show(known.model_dump_json(indent=2) if as_json else devices_table(known.devices))


@app.command()
def migrate() -> None:
    """Bring the database to the newest schema. The one of STAGECUT_DATABASE_URL."""
    from service.migrate import migrate as bring_up_to_date
    from service.settings import Settings
    from service.store import Store

    store = Store(Settings().database_url)
    bring_up_to_date(store)
    store.close()


@app.command()
def prune(
    days: Annotated[float, typer.Option(min=0, help="Remove plans finished longer ago.")],
) -> None:
    """Remove old plans from the database. The one of STAGECUT_DATABASE_URL."""
    from service.retention import prune as remove
    from service.settings import Settings
    from service.store import Store

    store = Store(Settings().database_url)
    show(f"{remove(store, days)} plans removed.")
    store.close()


def main() -> None:
    """The entry point of the ``stagecut`` command."""
    app()


def _read(file: str) -> PlanRequest:
    """The request in ``file``."""
    from service.reading import parse, validate
    from solver.request import PlanRequest

    return validate(PlanRequest, parse(read_file(file)))


def _print_answer(request: PlanRequest, answer: Plan | Evaluation, as_json: bool) -> None:
    if as_json:
        show(answer.model_dump_json(indent=2))
    else:
        from service.console.answers import page

        show(page(request, answer))


def _exit_status(plan: Plan) -> int:
    from solver.plan import Status

    match plan.status:
        case Status.SUCCEEDED:
            return 0
        case Status.INFEASIBLE:
            return INFEASIBLE
        case _:
            return FAILED


if __name__ == "__main__":
    main()
