"""Models of the catalogue."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter

from service.documents import ModelEntry, ModelList
from solver.workload import catalogue
from solver.workload.parameters import parameters

router = APIRouter(prefix="/v1/models", tags=["catalogues"])


@router.get("", summary="The models that a request can name")
def list_models() -> ModelList:
    """Models that `model.name` may name; any other can be given as its `config.json`."""
    return ModelList(models=list(known_models()))


@cache
def known_models() -> tuple[ModelEntry, ...]:
    """The catalogue, with the figures that people know a model by."""
    return tuple(_entry(name) for name in catalogue.model_names())


def _entry(name: str) -> ModelEntry:
    architecture = catalogue.architecture(name)
    entry = catalogue.models()[name]
    return ModelEntry(
        name=name,
        parameters=parameters(architecture),
        layers=architecture.num_layers,
        hidden_size=architecture.hidden_size,
        vocabulary_size=architecture.vocabulary_size,
        source=entry.source,
        note=entry.note,
    )
