"""The page of a batch."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from service.pages import batch_page
from service.pages.page_route import PageRoute
from service.routes.batches import BatchId, found_batch

router = APIRouter(prefix="/batches", include_in_schema=False, route_class=PageRoute)


@router.get("/{batch_id}")
async def read(batch_id: BatchId, request: Request) -> Response:
    """How its cases stand."""
    batch = await found_batch(batch_id, request)
    return await to_thread.run_sync(batch_page.page, batch)
