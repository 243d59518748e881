"""A finished plan by file or by id, for commands that do something with it."""

from __future__ import annotations

from pathlib import Path

from service.problems import ProblemError, problem
from service.reading import parse, validate
from solver.plan import Plan, Status
from solver.request import PlanRequest


def finished_plan(
    plan: str, *, request: str | None = None, store: str | None = None, server: str | None = None
) -> tuple[Plan, PlanRequest | None]:
    """A plan that succeeded, and its request where that is known.

    Args:
        plan: A file with the plan's JSON, or its id where ``store`` or ``server`` is given.
        request: A file with the plan's request.
        store: URL of the database that holds it.
        server: URL of the service that holds it.

    Raises:
        ProblemError: There is no such plan, it cannot be read, or it did not succeed.
    """
    if store:
        found, asked = _stored(plan, store)
    elif server:
        found, asked = _served(plan, server), None
    else:
        found, asked = validate(Plan, parse(_content(plan))), None
    if found.status is not Status.SUCCEEDED:
        raise ProblemError(
            problem(
                409,
                "no-stages",
                "There is nothing to be written",
                f"The plan is {found.status.value}.",
                hint="Give a plan that succeeded.",
            )
        )
    if request:
        asked = validate(PlanRequest, parse(_content(request)))
    elif asked is None and found.request is not None:
        asked = PlanRequest.model_validate(found.request)
    return found, asked


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ProblemError(
            problem(
                400,
                "no-input",
                "The file cannot be read",
                f"{file}: {error.strerror}.",
                hint="Give a plan's JSON file, or its id with --store or --server.",
            )
        ) from None


def _stored(plan_id: str, url: str) -> tuple[Plan, PlanRequest]:
    from service.migrate import migrate
    from service.store import Store, plans

    store = Store(url)
    try:
        migrate(store)
        with store.reading() as session:
            stored, asked = plans.find(session, plan_id), plans.request_of(session, plan_id)
    finally:
        store.close()
    if stored is None or stored.answer is None or asked is None:
        raise ProblemError(
            problem(404, "unknown-plan", "No such plan", f"The store has no answer '{plan_id}'.")
        )
    return Plan.model_validate_json(stored.answer), PlanRequest.model_validate_json(asked)


def _served(plan_id: str, url: str) -> Plan:
    from service.client import Client

    with Client(url) as client:
        document = client.read(plan_id)
    return Plan.model_validate(document.model_dump(include=set(Plan.model_fields)))
