"""Models of the catalogue."""

from __future__ import annotations

from fastapi import APIRouter

from service.catalogues import known_models
from service.documents import ModelList
from service.routes.strict_route import StrictRoute

router = APIRouter(prefix="/v1/models", tags=["catalogues"], route_class=StrictRoute)


@router.get("", summary="The models that a request can name")
def list_models() -> ModelList:
    """Models that `model.name` may name; any other can be given as its `config.json`."""
    return known_models()
