"""The catalogues as documents, for the web and for the command line."""

from __future__ import annotations

from functools import cache

from service.documents import DeviceList, ModelEntry, ModelList
from solver.cluster.device import devices
from solver.workload import catalogue
from solver.workload.parameters import parameters


@cache
def known_models() -> ModelList:
    """The models that a request can name, with the figures that people know them by."""
    return ModelList(models=[_entry(name) for name in catalogue.model_names()])


@cache
def known_devices() -> DeviceList:
    """The devices that a request can name."""
    return DeviceList(devices=list(devices().values()))


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
