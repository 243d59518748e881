"""What schedulers ask beside plans: read, given to a job or answered directly, found again."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request, Response
from pydantic import BaseModel

from service import bodies, prefer, reading
from service.context import intake_of, resolved, settings_of, stored_cluster
from service.jobs.intake import Asked
from service.jobs.study import Study
from service.problems import ProblemError, problem
from service.store.plans import StoredPlan
from solver.placement.documents import FreeNode, PlacementRequest

Body = TypeVar("Body", bound=BaseModel)


async def accepted(request: Request, kind: str, model: type[Body]) -> Response:
    """Accept the body as a job of a kind: 202, or 200 once it is done.

    Raises:
        ProblemError: The body is no such request, or cannot be answered.
    """
    return await accepted_study(request, await _study(request, kind, model))


async def accepted_study(request: Request, study: Study) -> Response:
    """Accept what was read as a job: 202, or 200 once it is done.

    Raises:
        ProblemError: It cannot be answered.
    """
    wait = prefer.preferred_wait(request)
    stored = await intake_of(request).plan(study, wait_seconds=wait)
    headers = {"Location": f"{request.url.path}/{stored.id}"} | prefer.applied(wait)
    if not stored.finished:
        headers["Retry-After"] = "1"
    return Response(
        _text(stored),
        status_code=200 if stored.finished else 202,
        headers=headers,
        media_type="application/json",
    )


async def answered(request: Request, kind: str, model: type[Body]) -> Response:
    """Answer the body directly.

    Raises:
        ProblemError: The body is no such request, or cannot be answered.
    """
    study = await _study(request, kind, model)
    answer = await intake_of(request).quick_answer(kind, study)
    return Response(answer, media_type="application/json")


async def read_study(request: Request, kind: str, study_id: str) -> tuple[str, bool]:
    """The answer (JSON text) of that id, or how far it is; and whether it is finished.

    Raises:
        ProblemError: There is none of this kind.
    """
    intake = intake_of(request)
    stored = await intake.find(study_id)
    if stored is None or stored.kind != kind:
        raise ProblemError(
            problem(
                404,
                "unknown-study",
                "No such answer",
                f"There is no {kind} {study_id[:100]!r}.",
                hint="Post the request; the answer says the id.",
            )
        )
    progress = None if stored.finished else await intake.progress(study_id)
    return _text(stored, progress), stored.answer is not None


async def _study(request: Request, kind: str, model: type[Body]) -> Study:
    settings = settings_of(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)
    return await study_of(request, kind, reading.validate(model, reading.parse(body)))


async def study_of(request: Request, kind: str, whole: BaseModel) -> Study:
    """The work that a validated question is.

    Raises:
        ProblemError: It names a cluster or a calibration that there is not.
    """
    if isinstance(whole, PlacementRequest):
        whole = await _on_its_cluster(request, whole)
    job = await resolved(request, whole.job)  # type: ignore[attr-defined]
    job = (await intake_of(request).known(Asked(job))).request
    return Study(request=job, of_kind=kind, whole=whole.model_copy(update={"job": job}))


async def _on_its_cluster(request: Request, asked: PlacementRequest) -> PlacementRequest:
    """The placement with the available nodes of the stored cluster that it names, if it has none.

    Raises:
        ProblemError: There is no such cluster.
    """
    name = asked.job.cluster.name
    if asked.nodes or name is None:
        return asked
    stored = await stored_cluster(request, name)
    nodes = [
        FreeNode(
            name=node.name,
            leaf=node.path[0] if node.path else "leaf",
            spine=node.path[1] if len(node.path) > 1 else None,
            domain=node.domain,
        )
        for node in stored.topology.nodes
        if node.available and node.device in (None, stored.device)
    ]
    return asked.model_copy(update={"nodes": nodes})


def _text(stored: StoredPlan, progress: str | None = None) -> str:
    if stored.answer is not None:
        return stored.answer
    parts = [f'"id":"{stored.id}","status":"{stored.status}"']
    if progress is not None:
        parts.append(f'"progress":{progress}')
    if stored.problem is not None:
        parts.append(f'"problem":{stored.problem}')
    return "{" + ",".join(parts) + "}"
