"""``stagecut expected``, ``observe`` and ``checkpoints``: about a plan that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.command_line import (
    AsJson,
    PlanName,
    RequestFile,
    ServerUrl,
    StoreUrl,
    problems_as_exit_status,
    read_file,
    show,
)

if TYPE_CHECKING:
    from solver.checkpoints.documents import CheckpointAdvice
    from solver.expected.documents import ExpectedAnswer
    from solver.plan import Plan
    from solver.request import PlanRequest

Measured = Annotated[
    str, typer.Argument(metavar="FILE", help="What was measured, as JSON; - reads stdin.")
]
Rate = Annotated[
    float,
    typer.Option("--storage", metavar="BYTES_PER_SECOND", help="At which checkpoints are written."),
]
Pause = Annotated[
    float | None,
    typer.Option("--pause", metavar="SECONDS", help="For which a checkpoint stops the run."),
]
FailureRate = Annotated[
    float | None,
    typer.Option("--failures", metavar="PER_DEVICE_HOUR", help="How often a device fails."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(expected)
    app.command()(observe)
    app.command()(checkpoints)


def expected(
    plan: PlanName,
    request: RequestFile = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Say what a monitor may expect of a running plan."""
    from solver.expected.documents import ExpectedRequest
    from solver.expected.expected import expected as work_out

    with problems_as_exit_status(as_json):
        found, asked = _plan_and_request(plan, request, store, server)
        answer = work_out(ExpectedRequest(job=asked, plan=found))
        show(answer.model_dump_json(indent=2)) if as_json else _show_expected(answer)


def observe(
    plan: PlanName,
    measured: Measured,
    request: RequestFile = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Say which stage, device or link of a run deviates."""
    from service.reading import parse, validate
    from solver.expected.documents import Observations, ObservedRequest
    from solver.expected.observed import observed

    with problems_as_exit_status(as_json):
        what = validate(Observations, parse(read_file(measured)))
        found, asked = _plan_and_request(plan, request, store, server)
        answer = observed(ObservedRequest(job=asked, plan=found, measured=what))
        if as_json:
            show(answer.model_dump_json(indent=2))
        else:
            show("\n".join(answer.deviations) or "Everything is as expected.")


def checkpoints(
    plan: PlanName,
    storage: Rate,
    pause: Pause = None,
    failures: FailureRate = None,
    request: RequestFile = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Say how often a plan should write checkpoints."""
    from service.reading import validate
    from solver.checkpoints.advice import advice
    from solver.checkpoints.documents import CheckpointRequest, CheckpointTerms

    with problems_as_exit_status(as_json):
        given = {"storage_bytes_per_second": storage, "pause_seconds": pause}
        if failures is not None:
            given["failures_per_device_hour"] = failures
        terms = validate(CheckpointTerms, given)
        found, asked = _plan_and_request(plan, request, store, server)
        answer = advice(CheckpointRequest(job=asked, plan=found, terms=terms))
        show(answer.model_dump_json(indent=2)) if as_json else _show_advice(answer)


def _plan_and_request(
    plan: str, request: str | None, store: str | None, server: str | None
) -> tuple[Plan, PlanRequest]:
    """The plan and its request.

    Raises:
        ProblemError: There is no such plan, or its request is not known.
    """
    from service.finished_plans import finished_plan
    from service.problems import ProblemError, problem

    found, asked = finished_plan(plan, request=request, store=store, server=server)
    if asked is None:
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The request is not well formed",
                "The plan does not say what was asked.",
                hint="Give the request that was planned with --request.",
            )
        )
    return found, asked


def _show_expected(answer: ExpectedAnswer) -> None:
    from service.console.fleet import titled

    low, high = answer.iteration_band
    show(f"An iteration takes {answer.iteration_seconds:.4g} s, between {low:.4g} and {high:.4g}.")
    table = titled(
        "Stages", "stage", "ranks", "forward\ns", "backward\ns", "allocated\nGB", "peak\nGB"
    )
    for stage in answer.stages:
        table.add_row(
            str(stage.index) if stage.chunk is None else f"{stage.index}.{stage.chunk}",
            "" if stage.ranks is None else _span(*stage.ranks),
            f"{stage.forward_seconds:.4g}",
            f"{stage.backward_seconds:.4g}",
            f"{stage.allocated_peak_bytes / 1e9:.4g}",
            f"{stage.peak_memory_bytes / 1e9:.4g}",
        )
    show(table)
    if not answer.collectives:
        return
    table = titled(
        "Collectives", "name", "stage", "devices", "MB", "ms", "bus GB/s", words=("name",)
    )
    for one in answer.collectives:
        table.add_row(
            one.name,
            "all" if one.stage is None else str(one.stage),
            str(one.devices),
            f"{one.size_bytes / 1e6:.4g}",
            f"{one.seconds * 1e3:.4g}",
            f"{one.bus_bytes_per_second / 1e9:.4g}",
        )
    show(table)


def _span(first: float, last: float) -> str:
    return f"{first:.0f}" if first == last else f"{first:.0f}-{last:.0f}"


def _show_advice(answer: CheckpointAdvice) -> None:
    show(
        f"A checkpoint of {answer.state_bytes / 1e9:.4g} GB every {answer.interval_iterations} "
        f"iterations ({answer.interval_seconds:.4g} s): {answer.goodput:.2%} of the time is work, "
        f"{answer.checkpoint_share:.2%} checkpoints, {answer.failure_share:.2%} lost to failures "
        f"(one in {answer.failure_seconds / 3600:.4g} h)."
    )
    for note in answer.notes:
        show(note)
