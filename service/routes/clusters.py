"""Clusters: imported, read, listed, removed."""

from __future__ import annotations

import time
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response

from service import bodies, reading
from service.clusters import (
    ClusterDocument,
    ClusterImport,
    ClusterList,
    ClusterSummary,
    imported,
    unknown_cluster,
)
from service.context import settings_of, store_of
from service.documentation import body_of, problems
from service.problems import ProblemError, from_stagecut_error
from service.routes.strict_route import StrictRoute
from service.schema_examples import sample
from service.store import clusters
from solver.errors import StagecutError

router = APIRouter(prefix="/v1/clusters", tags=["clusters"], route_class=StrictRoute)

Name = Annotated[str, Path(description="The cluster's name.", max_length=100)]


@router.post(
    "",
    summary="Import a cluster",
    status_code=201,
    responses={
        200: {"model": ClusterDocument, "description": "The cluster of that name was replaced."},
        201: {"model": ClusterDocument, "description": "Stored."},
        **problems(400, 408, 413, 415, 422),
    },
    openapi_extra=body_of(ClusterImport, {"a-tree-of-switches": sample("cluster_import")}),
)
async def import_cluster(request: Request) -> Response:
    """Reads files about a cluster, from Slurm, Kubernetes, Volcano, topograph, `nvidia-smi`, NCCL
    or Ascend, and stores it by name: requests may then say `"cluster": {"name": ...}`. The answer
    says what was understood, and in `assumed` what no file said.
    """
    settings, store = settings_of(request), store_of(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)

    def read_and_store() -> tuple[str, bool]:
        asked = reading.validate(ClusterImport, reading.parse(body))
        try:
            document = imported(asked)
        except StagecutError as error:
            raise ProblemError(from_stagecut_error(error)) from None
        text = document.model_dump_json()
        with store.writing() as session:
            return text, clusters.put(session, document.name, text, time.time())

    text, is_new = await to_thread.run_sync(read_and_store)
    return Response(text, status_code=201 if is_new else 200, media_type="application/json")


@router.get("", summary="List clusters", responses={200: {"model": ClusterList}})
async def list_clusters(request: Request) -> ClusterList:
    """The stored clusters, by name."""

    def read_all() -> list[str]:
        with store_of(request).reading() as session:
            return clusters.documents(session)

    return ClusterList(
        clusters=[
            ClusterSummary.model_validate_json(text) for text in await to_thread.run_sync(read_all)
        ]
    )


@router.get(
    "/{name}",
    summary="Read a cluster",
    responses={200: {"model": ClusterDocument}, **problems(404)},
)
async def read_cluster(name: Name, request: Request) -> Response:
    """The cluster with every node, its switches and what was assumed of it."""

    def read_one() -> str | None:
        with store_of(request).reading() as session:
            return clusters.find(session, name)

    text = await to_thread.run_sync(read_one)
    if text is None:
        raise unknown_cluster(name)
    return Response(text, media_type="application/json")


@router.delete(
    "/{name}",
    summary="Remove a cluster",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Removed; plans that named it stay."}, **problems(404)},
)
async def remove_cluster(name: Name, request: Request) -> Response:
    """Remove the cluster. Plans that were made for it stay as they are."""

    def remove() -> bool:
        with store_of(request).writing() as session:
            return clusters.remove(session, name)

    if not await to_thread.run_sync(remove):
        raise unknown_cluster(name)
    return Response(status_code=204)
