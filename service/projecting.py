"""A finished plan projected onto a framework, here or by a service."""

from __future__ import annotations

from service.finished_plans import finished_plan
from service.problems import ProblemError, problem
from solver.projections.documents import Projection, ProjectionRequest


def projected(
    plan: str,
    framework: str,
    *,
    request: str | None = None,
    store: str | None = None,
    server: str | None = None,
) -> Projection:
    """Project a plan; arguments beside the framework as ``finished_plan``.

    Raises:
        ProblemError: There is no such plan, or it does not say what it answers.
        UnknownName: There is no such framework.
    """
    if server:
        from service.client import Client

        with Client(server) as client:
            return client.projection(plan, framework)
    found, asked = finished_plan(plan, request=request, store=store)
    if asked is None:
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The request is not well formed",
                "The plan does not say what it answers.",
                field="request",
                hint="Give its request by --request.",
            )
        )
    from service.console.standard_output import kept_for_answers
    from solver.projections.project import project

    with kept_for_answers():
        return project(ProjectionRequest(job=asked, plan=found, framework=framework))
