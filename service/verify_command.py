"""``stagecut verify``: a plan's claims derived again from its request."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from service.command_line import (
    NOT_AS_EXPECTED,
    AsJson,
    PlanName,
    RequestFile,
    ServerUrl,
    StoreUrl,
    problems_as_exit_status,
    show,
)


def add_to(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(verify)


def verify(
    plan: PlanName,
    request: RequestFile = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Derive a plan's claims again, without the optimiser. Its time, memory and bound."""
    from service.console.claims import claims_shown
    from service.console.progress import ProgressLine, aside
    from service.finished_plans import finished_plan
    from solver.recheck import Verdict, recheck

    with problems_as_exit_status(as_json):
        found, asked = finished_plan(plan, request=request, store=store, server=server)
        with ProgressLine(aside(), "Verifying"):
            claims = recheck(found, asked)
        if as_json:
            show(json.dumps([asdict(claim) for claim in claims], indent=2))
        else:
            show(claims_shown(claims))
        if any(claim.verdict is Verdict.FALSE for claim in claims):
            raise typer.Exit(NOT_AS_EXPECTED)
