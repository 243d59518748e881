"""A client of the service, sync and async, that gives typed answers and raises problems."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
from pydantic import BaseModel

from service.batches.documents import BatchDocument, BatchRequest, CaseStatus
from service.clusters import ClusterDocument, ClusterImport, ClusterList
from service.documents import (
    CalibrationList,
    DeviceList,
    Health,
    ModelList,
    ObservationList,
    PlanDocument,
    PlanEvent,
    PlanList,
    Progress,
    StudyDocument,
)
from service.problems import MEDIA_TYPE, Problem, ProblemError
from solver.calibrate.measured import RunsToFit
from solver.calibrations import Calibration
from solver.checkpoints.documents import CheckpointAdvice, CheckpointTerms
from solver.expected.documents import ExpectedAnswer, ObservationAnswer, Observations
from solver.imports.documents import ImportAnswer
from solver.plan import Evaluation, Status
from solver.projections.documents import Projection
from solver.request import PlanRequest

PlanInput = PlanRequest | Mapping[str, Any]
BatchInput = BatchRequest | Mapping[str, Any]
OnDone = Callable[[int, int], None]
OnProgress = Callable[[Progress], None]
Parameter = str | int | list[str]
T = TypeVar("T")

_WAIT_SECONDS = 20
_POLL_SECONDS = 0.3
_UNFINISHED = (Status.QUEUED, Status.RUNNING)


@dataclass(frozen=True)
class _Call:
    """One HTTP request to make, after a pause."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    pause_seconds: float = 0.0


_Steps = Generator[_Call, httpx2.Response, T]
Document = TypeVar("Document", bound=BaseModel)


class Client:
    """Talks to the service at ``url``, with an API key where that is needed.

    Every method raises :class:`service.problems.ProblemError` when the service answers with a
    problem, and ``httpx2.TransportError`` when it cannot be reached.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout_seconds: float = 60.0,
        **options: Any,
    ) -> None:
        self._http = httpx2.Client(base_url=url, timeout=timeout_seconds, **_with_key(key, options))

    def plan(self, request: PlanInput, on_progress: OnProgress | None = None) -> PlanDocument:
        """Ask for the best plan and wait for it, however long that takes."""
        return self._run(_plan(request, on_progress))

    def submit(self, request: PlanInput, wait_seconds: int = 0) -> PlanDocument:
        """Ask for the best plan; it is not finished if that takes longer than ``wait_seconds``."""
        return self._run(_submit(request, wait_seconds))

    def read(self, plan_id: str) -> PlanDocument:
        """The plan of that id, wherever it stands."""
        return self._run(_get(f"/v1/plans/{plan_id}", PlanDocument))

    def events(self, plan_id: str) -> Iterator[PlanEvent]:
        """Where the plan stands, now and whenever that changes; the last is finished."""
        with self._http.stream(**_follow(plan_id)) as response:
            if response.is_error:
                response.read()
            yield from filter(None, map(_event, _good(response).iter_lines()))

    def plans(self, *, limit: int = 50, cursor: str | None = None) -> PlanList:
        """A page of plans, newest first."""
        return self._run(_get("/v1/plans", PlanList, _page(limit, cursor)))

    def cancel(self, plan_id: str) -> None:
        """Cancel the plan's solve, or remove the plan if it is over."""
        return self._run(_cancel(plan_id))

    def batch(self, request: BatchInput, on_done: OnDone | None = None) -> BatchDocument:
        """Ask for a batch and wait until no case is pending, however long that takes."""
        return self._run(_batch(request, on_done))

    def submit_batch(self, request: BatchInput, wait_seconds: int = 0) -> BatchDocument:
        """Ask for a batch; cases are pending if they take longer than ``wait_seconds``."""
        return self._run(_submit_batch(request, wait_seconds))

    def read_batch(self, batch_id: str) -> BatchDocument:
        """The batch of that id, wherever it stands."""
        return self._run(_get(f"/v1/batches/{batch_id}", BatchDocument))

    def batch_junit(self, batch_id: str) -> str:
        """The batch as a JUnit file."""
        return self._run(_text(f"/v1/batches/{batch_id}/junit"))

    def batch_summary(self, batch_id: str) -> str:
        """The batch as Markdown."""
        return self._run(_text(f"/v1/batches/{batch_id}/summary"))

    def evaluate(self, request: PlanInput) -> Evaluation:
        """Time and memory of the layout and policy that the request gives."""
        return self._run(_evaluate(request))

    def study(
        self, path: str, request: BaseModel | Mapping[str, Any], kind: type[Document]
    ) -> Document:
        """What schedulers ask, such as ``/v1/capacity``; waits for the answer."""
        return self._run(_study(path, request, kind))

    def expected(self, plan_id: str) -> ExpectedAnswer:
        """What a monitor may expect of a running plan."""
        return self._run(_get(f"/v1/plans/{plan_id}/expected", ExpectedAnswer))

    def observe(
        self, plan_id: str, measured: Observations | Mapping[str, Any]
    ) -> ObservationAnswer:
        """Say what was measured of a running plan; which stage or link deviates."""
        path = f"/v1/plans/{plan_id}/observations"
        return self._run(_post(path, ObservationAnswer, measured))

    def observations(self, plan_id: str) -> ObservationList:
        """What was measured of a plan, newest first."""
        return self._run(_get(f"/v1/plans/{plan_id}/observations", ObservationList))

    def checkpoints(
        self, plan_id: str, terms: CheckpointTerms | Mapping[str, Any]
    ) -> CheckpointAdvice:
        """How often a plan should write checkpoints."""
        return self._run(_post(f"/v1/plans/{plan_id}/checkpoints", CheckpointAdvice, terms))

    def look_up(self, path: str, kind: type[Document], **parameters: Parameter) -> Document:
        """A part of what was asked for, such as ``/v1/capacity/{id}`` with ``nodes=37``."""
        return self._run(_get(path, kind, parameters))

    def export(self, plan_id: str, framework: str, launch: str | None = None) -> str:
        """The plan as the framework's configuration, or the file by which ``launch`` starts it."""
        parameters = {"launch": launch} if launch else None
        return self._run(_text(f"/v1/plans/{plan_id}/exports/{framework}", parameters))

    def projection(self, plan_id: str, framework: str) -> Projection:
        """The nearest plan that the framework can run, costed again, beside the plan."""
        path = f"/v1/plans/{plan_id}/projections/{framework}"
        return self._run(_get(path, Projection))

    def import_configuration(self, asked: BaseModel | Mapping[str, Any]) -> ImportAnswer:
        """What runs today beside the best for its framework and the best of all; waits for it."""
        return self._run(_study("/v1/imports", asked, ImportAnswer))

    def import_cluster(self, asked: ClusterImport | Mapping[str, Any]) -> ClusterDocument:
        """Store a cluster that files describe, by name."""
        return self._run(_post("/v1/clusters", ClusterDocument, asked))

    def clusters(self) -> ClusterList:
        """The stored clusters, by name."""
        return self._run(_get("/v1/clusters", ClusterList))

    def cluster(self, name: str) -> ClusterDocument:
        """The stored cluster of that name, with every node."""
        return self._run(_get(f"/v1/clusters/{name}", ClusterDocument))

    def calibrate(self, runs: RunsToFit | Mapping[str, Any]) -> Calibration:
        """Fit a calibration to measured runs; the service keeps it."""
        return self._run(_post("/v1/calibrations", Calibration, _body(runs)))

    def calibrations(self, *, limit: int = 100) -> CalibrationList:
        """The calibrations that were fitted there, newest first."""
        return self._run(_get("/v1/calibrations", CalibrationList, {"limit": limit}))

    def calibration(self, name: str, version: str | None = None) -> Calibration:
        """The calibration of that name: the newest, or that version."""
        path = f"/v1/calibrations/{name}" + (f"/{version}" if version else "")
        return self._run(_get(path, Calibration))

    def models(self) -> ModelList:
        """The catalogue of models."""
        return self._run(_get("/v1/models", ModelList))

    def devices(self) -> DeviceList:
        """The catalogue of devices."""
        return self._run(_get("/v1/devices", DeviceList))

    def health(self) -> Health:
        """Whether the service is up."""
        return self._run(_get("/healthz", Health))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, steps: _Steps[T]) -> T:
        call = next(steps)
        while True:
            time.sleep(call.pause_seconds)
            try:
                call = steps.send(self._http.request(**_arguments(call)))
            except StopIteration as end:
                result: T = end.value
                return result


class AsyncClient:
    """The same for asyncio."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout_seconds: float = 60.0,
        **options: Any,
    ) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url, timeout=timeout_seconds, **_with_key(key, options)
        )

    async def plan(self, request: PlanInput, on_progress: OnProgress | None = None) -> PlanDocument:
        """Ask for the best plan and wait for it, however long that takes."""
        return await self._run(_plan(request, on_progress))

    async def submit(self, request: PlanInput, wait_seconds: int = 0) -> PlanDocument:
        """Ask for the best plan; it is not finished if that takes longer than ``wait_seconds``."""
        return await self._run(_submit(request, wait_seconds))

    async def read(self, plan_id: str) -> PlanDocument:
        """The plan of that id, wherever it stands."""
        return await self._run(_get(f"/v1/plans/{plan_id}", PlanDocument))

    async def events(self, plan_id: str) -> AsyncIterator[PlanEvent]:
        """Where the plan stands, now and whenever that changes; the last is finished."""
        async with self._http.stream(**_follow(plan_id)) as response:
            if response.is_error:
                await response.aread()
            async for line in _good(response).aiter_lines():
                if event := _event(line):
                    yield event

    async def plans(self, *, limit: int = 50, cursor: str | None = None) -> PlanList:
        """A page of plans, newest first."""
        return await self._run(_get("/v1/plans", PlanList, _page(limit, cursor)))

    async def cancel(self, plan_id: str) -> None:
        """Cancel the plan's solve, or remove the plan if it is over."""
        return await self._run(_cancel(plan_id))

    async def batch(self, request: BatchInput, on_done: OnDone | None = None) -> BatchDocument:
        """Ask for a batch and wait until no case is pending, however long that takes."""
        return await self._run(_batch(request, on_done))

    async def submit_batch(self, request: BatchInput, wait_seconds: int = 0) -> BatchDocument:
        """Ask for a batch; cases are pending if they take longer than ``wait_seconds``."""
        return await self._run(_submit_batch(request, wait_seconds))

    async def read_batch(self, batch_id: str) -> BatchDocument:
        """The batch of that id, wherever it stands."""
        return await self._run(_get(f"/v1/batches/{batch_id}", BatchDocument))

    async def batch_junit(self, batch_id: str) -> str:
        """The batch as a JUnit file."""
        return await self._run(_text(f"/v1/batches/{batch_id}/junit"))

    async def batch_summary(self, batch_id: str) -> str:
        """The batch as Markdown."""
        return await self._run(_text(f"/v1/batches/{batch_id}/summary"))

    async def evaluate(self, request: PlanInput) -> Evaluation:
        """Time and memory of the layout and policy that the request gives."""
        return await self._run(_evaluate(request))

    async def study(
        self, path: str, request: BaseModel | Mapping[str, Any], kind: type[Document]
    ) -> Document:
        """What schedulers ask, such as ``/v1/capacity``; waits for the answer."""
        return await self._run(_study(path, request, kind))

    async def expected(self, plan_id: str) -> ExpectedAnswer:
        """What a monitor may expect of a running plan."""
        return await self._run(_get(f"/v1/plans/{plan_id}/expected", ExpectedAnswer))

    async def observe(
        self, plan_id: str, measured: Observations | Mapping[str, Any]
    ) -> ObservationAnswer:
        """Say what was measured of a running plan; which stage or link deviates."""
        path = f"/v1/plans/{plan_id}/observations"
        return await self._run(_post(path, ObservationAnswer, measured))

    async def observations(self, plan_id: str) -> ObservationList:
        """What was measured of a plan, newest first."""
        return await self._run(_get(f"/v1/plans/{plan_id}/observations", ObservationList))

    async def checkpoints(
        self, plan_id: str, terms: CheckpointTerms | Mapping[str, Any]
    ) -> CheckpointAdvice:
        """How often a plan should write checkpoints."""
        return await self._run(_post(f"/v1/plans/{plan_id}/checkpoints", CheckpointAdvice, terms))

    async def look_up(self, path: str, kind: type[Document], **parameters: Parameter) -> Document:
        """A part of what was asked for, such as ``/v1/capacity/{id}`` with ``nodes=37``."""
        return await self._run(_get(path, kind, parameters))

    async def export(self, plan_id: str, framework: str, launch: str | None = None) -> str:
        """The plan as the framework's configuration, or the file by which ``launch`` starts it."""
        parameters = {"launch": launch} if launch else None
        return await self._run(_text(f"/v1/plans/{plan_id}/exports/{framework}", parameters))

    async def projection(self, plan_id: str, framework: str) -> Projection:
        """The nearest plan that the framework can run, costed again, beside the plan."""
        path = f"/v1/plans/{plan_id}/projections/{framework}"
        return await self._run(_get(path, Projection))

    async def import_configuration(self, asked: BaseModel | Mapping[str, Any]) -> ImportAnswer:
        """What runs today beside the best for its framework and the best of all; waits for it."""
        return await self._run(_study("/v1/imports", asked, ImportAnswer))

    async def import_cluster(self, asked: ClusterImport | Mapping[str, Any]) -> ClusterDocument:
        """Store a cluster that files describe, by name."""
        return await self._run(_post("/v1/clusters", ClusterDocument, asked))

    async def clusters(self) -> ClusterList:
        """The stored clusters, by name."""
        return await self._run(_get("/v1/clusters", ClusterList))

    async def cluster(self, name: str) -> ClusterDocument:
        """The stored cluster of that name, with every node."""
        return await self._run(_get(f"/v1/clusters/{name}", ClusterDocument))

    async def calibrate(self, runs: RunsToFit | Mapping[str, Any]) -> Calibration:
        """Fit a calibration to measured runs; the service keeps it."""
        return await self._run(_post("/v1/calibrations", Calibration, _body(runs)))

    async def calibrations(self, *, limit: int = 100) -> CalibrationList:
        """The calibrations that were fitted there, newest first."""
        return await self._run(_get("/v1/calibrations", CalibrationList, {"limit": limit}))

    async def calibration(self, name: str, version: str | None = None) -> Calibration:
        """The calibration of that name: the newest, or that version."""
        path = f"/v1/calibrations/{name}" + (f"/{version}" if version else "")
        return await self._run(_get(path, Calibration))

    async def models(self) -> ModelList:
        """The catalogue of models."""
        return await self._run(_get("/v1/models", ModelList))

    async def devices(self) -> DeviceList:
        """The catalogue of devices."""
        return await self._run(_get("/v1/devices", DeviceList))

    async def health(self) -> Health:
        """Whether the service is up."""
        return await self._run(_get("/healthz", Health))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _run(self, steps: _Steps[T]) -> T:
        call = next(steps)
        while True:
            await asyncio.sleep(call.pause_seconds)
            try:
                call = steps.send(await self._http.request(**_arguments(call)))
            except StopIteration as end:
                result: T = end.value
                return result


def _plan(request: PlanInput, on_progress: OnProgress | None) -> _Steps[PlanDocument]:
    wait = 0 if on_progress else _WAIT_SECONDS
    document = yield from _submit(request, wait)
    while document.status in _UNFINISHED:
        if on_progress and document.progress:
            on_progress(document.progress)
        path = f"/v1/plans/{document.id}"
        document = yield from _get(path, PlanDocument, pause_seconds=_POLL_SECONDS)
    return document


def _submit(request: PlanInput, wait_seconds: int) -> _Steps[PlanDocument]:
    headers = {"Prefer": f"wait={wait_seconds}"} if wait_seconds else {}
    response = yield _Call("POST", "/v1/plans", headers=headers, body=_body(request))
    return _read(PlanDocument, response)


def _batch(request: BatchInput, on_done: OnDone | None) -> _Steps[BatchDocument]:
    document = yield from _submit_batch(request, 0)
    while document.passed is None:
        if on_done is not None:
            on_done(len(document.cases) - document.counts[CaseStatus.PENDING], len(document.cases))
        path = f"/v1/batches/{document.id}"
        document = yield from _get(path, BatchDocument, pause_seconds=_POLL_SECONDS)
    return document


def _submit_batch(request: BatchInput, wait_seconds: int) -> _Steps[BatchDocument]:
    headers = {"Prefer": f"wait={wait_seconds}"} if wait_seconds else {}
    response = yield _Call("POST", "/v1/batches", headers=headers, body=_body(request))
    return _read(BatchDocument, response)


def _text(path: str, parameters: Mapping[str, str | int] | None = None) -> _Steps[str]:
    return _good((yield _Call("GET", path, parameters=parameters or {}))).text


def _evaluate(request: PlanInput) -> _Steps[Evaluation]:
    response = yield _Call("POST", "/v1/evaluations", body=_body(request))
    return _read(Evaluation, response)


def _post(path: str, kind: type[Document], body: BaseModel | Mapping[str, Any]) -> _Steps[Document]:
    plain = body.model_dump(mode="json") if isinstance(body, BaseModel) else body
    response = yield _Call("POST", path, body=plain)
    return _read(kind, response)


def _study(
    path: str, request: BaseModel | Mapping[str, Any], kind: type[Document]
) -> _Steps[Document]:
    plain = request.model_dump(mode="json") if isinstance(request, BaseModel) else request
    headers = {"Prefer": f"wait={_WAIT_SECONDS}"}
    response = _good((yield _Call("POST", path, headers=headers, body=plain)))
    while response.status_code == 202 or response.json().get("status") in _UNFINISHED:
        found = StudyDocument.model_validate_json(response.content, extra="ignore")
        where = f"{path}/{found.id}"
        response = _good((yield _Call("GET", where, pause_seconds=_POLL_SECONDS)))
    if response.json().get("problem"):
        raise ProblemError(Problem.model_validate(response.json()["problem"]))
    return _read(kind, response)


def _cancel(plan_id: str) -> _Steps[None]:
    _good((yield _Call("DELETE", f"/v1/plans/{plan_id}")))


def _get(
    path: str,
    kind: type[Document],
    parameters: Mapping[str, Parameter] | None = None,
    pause_seconds: float = 0.0,
) -> _Steps[Document]:
    response = yield _Call("GET", path, parameters=parameters or {}, pause_seconds=pause_seconds)
    return _read(kind, response)


def _page(limit: int, cursor: str | None) -> Mapping[str, Parameter]:
    return {"limit": limit} | ({"cursor": cursor} if cursor else {})


def _with_key(key: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options of an HTTP client that sends the key, or that of STAGECUT_KEY, every time."""
    key = key or os.environ.get("STAGECUT_KEY")
    if not key:
        return options
    return options | {"headers": {"Authorization": f"Bearer {key}", **options.get("headers", {})}}


def _body(request: BaseModel | Mapping[str, Any]) -> Mapping[str, Any]:
    """What was left out stays out: Megatron-LM's flags may fill it."""
    if isinstance(request, BaseModel):
        return request.model_dump(mode="json", exclude_unset=True)
    return request


def _follow(plan_id: str) -> dict[str, Any]:
    return {
        "method": "GET",
        "url": f"/v1/plans/{plan_id}/events",
        "headers": {"Accept": "text/event-stream"},
    }


def _event(line: str) -> PlanEvent | None:
    """The event of a line of a stream; its other lines say nothing that the data does not."""
    field, _, data = line.partition(": ")
    return PlanEvent.model_validate_json(data, extra="ignore") if field == "data" else None


def _arguments(call: _Call) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "headers": call.headers,
        "params": call.parameters,
        "json": call.body,
    }


def _read(kind: type[Document], response: httpx2.Response) -> Document:
    """The document; fields that a newer server adds are passed over."""
    return kind.model_validate_json(_good(response).content, extra="ignore")


def _good(response: httpx2.Response) -> httpx2.Response:
    """The response, unless it is a problem."""
    if response.headers.get("content-type", "").startswith(MEDIA_TYPE):
        raise ProblemError(Problem.model_validate_json(response.content))
    return response.raise_for_status()
