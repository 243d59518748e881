"""A finished plan written for a framework, with the file that starts it."""

from __future__ import annotations

from dataclasses import dataclass

from service.finished_plans import finished_plan
from service.problems import ProblemError, problem
from solver.plan import Export
from solver.targets.launch import Launch, Launcher, launch
from solver.targets.written import planned, written


@dataclass(frozen=True)
class Files:
    """What a framework is given: its configuration, and the file that starts it if asked for."""

    export: Export
    launch: Launch | None = None


def exported(
    plan: str,
    framework: str,
    launcher: str | None = None,
    *,
    request: str | None = None,
    store: str | None = None,
    server: str | None = None,
) -> Files:
    """Write a plan; arguments beside the framework as ``finished_plan``.

    Raises:
        ProblemError: There is no such plan or launcher, or it holds nothing to be written.
        UnknownName: There is no such framework.
    """
    found, asked = finished_plan(plan, request=request, store=store, server=server)
    training = None if asked is None else asked.training
    export = written(found, framework, training)
    if launcher is None:
        return Files(export)
    if launcher not in list(Launcher):
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The request is not well formed",
                f"'{launcher}' starts no jobs here.",
                field="launch",
                hint=f"Give one of {', '.join(Launcher)}.",
            )
        )
    each = (asked.cluster.devices_per_node if asked else None) or 8
    made = launch(Launcher(launcher), planned(found, framework, training), export, each)
    return Files(export, made)
