"""Exports: a plan in the words of a framework, and the file that starts it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from service.documentation import problems
from service.documents import ExportList
from service.problems import ProblemError, from_stagecut_error
from service.routes.plans import PlanId
from service.routes.strict_route import StrictRoute
from service.stored_plan import succeeded_plan
from solver.errors import UnknownName
from solver.plan import Export, Plan
from solver.request import PlanRequest
from solver.targets.launch import Launcher, launch
from solver.targets.registry import TARGETS, target_named
from solver.targets.written import planned, written

router = APIRouter(prefix="/v1/plans/{plan_id}/exports", tags=["plans"], route_class=StrictRoute)

FrameworkName = Annotated[
    str, Path(description="A framework, such as `megatron-lm`.", max_length=100)
]


@router.get(
    "",
    summary="Write a plan for every framework",
    responses={200: {"model": ExportList}, **problems(404, 409)},
)
async def every(plan_id: PlanId, request: Request) -> ExportList:
    """The plan in the words of each framework: how exact they are, and what they cannot say."""
    plan, asked = await succeeded_plan(plan_id, request)
    return ExportList(
        exports=[_export(plan, name, asked) for name in TARGETS],
    )


@router.get(
    "/{framework}",
    summary="Write a plan for a framework",
    response_class=Response,
    responses={
        200: {
            "description": "The configuration file, or with `launch` the file that starts it.",
            "content": {
                kind: {"schema": {"type": "string"}}
                for kind in (
                    "text/plain",
                    "application/yaml",
                    "application/json",
                    "text/x-python",
                    "application/x-sh",
                )
            },
        },
        **problems(404, 409, 422),
    },
)
async def one(
    plan_id: PlanId,
    framework: FrameworkName,
    request: Request,
    launcher: Annotated[
        Launcher | None,
        Query(alias="launch", description="Instead, the file by which this starts the job."),
    ] = None,
) -> Response:
    """The plan as the framework's configuration: flags, YAML, JSON or Python. `Stagecut-Exact` says
    whether it says all that the plan decides; the list of exports says what it leaves out.
    """
    known(framework)
    plan, asked = await succeeded_plan(plan_id, request)
    export = _export(plan, framework, asked)
    file, kind, text = export.file, export.media_type, export.text
    if launcher is not None:
        made = launch(
            launcher,
            planned(plan, framework, asked.training),
            export,
            asked.cluster.devices_per_node or 8,
        )
        file, kind, text = made.file, made.media_type, made.text
    headers = {
        "Content-Disposition": f'inline; filename="{file}"',
        "Stagecut-Exact": "true" if export.exact else "false",
    }
    return Response(text, headers=headers, media_type=kind)


def known(framework: str) -> None:
    """Refuse a framework that is not known: there is no such resource."""
    try:
        target_named(framework, "framework")
    except UnknownName as error:
        raise ProblemError(from_stagecut_error(error).model_copy(update={"status": 404})) from None


def _export(plan: Plan, framework: str, asked: PlanRequest) -> Export:
    return written(plan, framework, asked.training)
