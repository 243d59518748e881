"""The pages of batches."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from service.batches import desk
from service.context import caller_of, store_of
from service.pages import batch_page
from service.pages.page_route import PageRoute
from service.routes.batches import BatchId, found_batch

router = APIRouter(prefix="/batches", include_in_schema=False, route_class=PageRoute)

_LATEST = 20


@router.get("")
async def listing(request: Request) -> Response:
    """The latest batches."""

    def rendered() -> Response:
        found = desk.latest(store_of(request), _LATEST, caller_of(request).visible)
        return batch_page.listing(found)

    return await to_thread.run_sync(rendered)


@router.get("/{batch_id}")
async def read(batch_id: BatchId, request: Request) -> Response:
    """How its cases stand."""
    batch = await found_batch(batch_id, request)
    return await to_thread.run_sync(batch_page.page, batch)
