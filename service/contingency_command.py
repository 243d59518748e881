"""``stagecut contingencies``: what to do when nodes of a running plan fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.command_line import (
    INFEASIBLE,
    AsJson,
    ServerUrl,
    problems_as_exit_status,
    show,
)
from service.fleet_commands import File, answer_to

if TYPE_CHECKING:
    from solver.contingencies.documents import ContingencyAnswer, Covered

Failed = Annotated[
    list[str] | None,
    typer.Option("--failed", metavar="NAME", help="Say only what to do when this node fails."),
]


def contingencies(
    file: File, failed: Failed = None, as_json: AsJson = False, server: ServerUrl = None
) -> None:
    """Say what to do when nodes of a running plan fail."""
    from solver.contingencies.documents import ContingencyAnswer, ContingencyRequest
    from solver.contingencies.lookup import Lookup

    with problems_as_exit_status(as_json):
        answer = answer_to("contingency", file, ContingencyRequest, ContingencyAnswer, server)
        if answer.status != "succeeded":
            show(answer.model_dump_json(indent=2) if as_json else " ".join(answer.notes))
            raise typer.Exit(INFEASIBLE)
        if failed:
            covered = Lookup.of(answer).covered(failed)
            show(covered.model_dump_json(indent=2)) if as_json else _show_covered(covered)
        else:
            show(answer.model_dump_json(indent=2)) if as_json else _show(answer)


def _show(answer: ContingencyAnswer) -> None:
    from service.console.fleet import contingency_tables

    for part in contingency_tables(answer):
        show(part)


def _show_covered(covered: Covered) -> None:
    show(f"{', '.join(covered.failed)}: {covered.title}")
    for action in covered.actions:
        plan = action.plan
        bridged = (
            ""
            if action.break_even_seconds is None
            else f", better than waiting from {action.break_even_seconds:.4g} s"
        )
        show(
            f"  {plan.action.value.replace('_', ' ')}: {plan.throughput:.1%} of the speed "
            f"on {plan.uses_nodes} nodes "
            f"after {action.transition_seconds:.4g} s{bridged}"
        )
        if action.nodes:
            show(f"    ranks in order: {' '.join(action.nodes)}")
