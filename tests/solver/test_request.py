"""What a request may say, and how a wrong one is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from pydantic import ValidationError

from solver.request import PlanRequest, canonical
from tests.solver.requests import HAND, hand, small

LAYER = ("model", "profile", "blocks", "layer")


def errors(document: Any) -> list[tuple[str, str]]:
    """Where and why a document is refused."""
    with pytest.raises(ValidationError) as caught:
        PlanRequest.model_validate(document)
    return [(path_of(error["loc"]), error["type"]) for error in caught.value.errors()]


def path_of(location: tuple[int | str, ...]) -> str:
    """A location without the tags that say whether a field has one value or several."""
    return ".".join(str(step) for step in location if step not in ("one", "several"))


def with_value(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The request by hand with one value put in."""
    document = copy.deepcopy(HAND)
    at: Any = document
    for key in path[:-1]:
        at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
    at[path[-1]] = value
    return document


@pytest.mark.parametrize(
    "path",
    [
        ("modle",),
        ("model", "profil"),
        ("cluster", "memory"),
        ("training", "batch"),
        ("layout", "pipeline"),
        ("recompute", "layers"),
        ("solver", "gap"),
        (*LAYER, "bytes"),
        (*LAYER, "ops", 0, "flops"),
    ],
)
def test_an_unknown_field_is_refused_with_its_path(path: tuple[Any, ...]) -> None:
    assert (".".join(map(str, path)), "extra_forbidden") in errors(with_value(path, 1))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cluster", "memory_bytes"), 0),
        (("cluster", "memory_bytes"), -1.0),
        (("cluster", "memory_bytes"), float("nan")),
        (("cluster", "memory_bytes"), float("inf")),
        (("cluster", "nodes"), 0),
        (("training", "global_batch_size"), -4),
        (("training", "global_batch_size"), 1.5),
        (("training", "precision"), "int3"),
        (("layout", "pipeline_parallel"), 0),
        (("layout", "zero_stage"), 4),
        (("layout", "schedule"), "sideways"),
        (("recompute", "policy"), "maybe"),
        (("solver", "time_limit_seconds"), 0),
        (("solver", "relative_gap"), -1e-9),
        ((*LAYER, "state_bytes"), -1.0),
        ((*LAYER, "ops"), []),
        ((*LAYER, "ops", 0, "forward_seconds"), -1e-9),
        ((*LAYER, "ops", 0, "output_bytes"), "many"),
        ((*LAYER, "ops", 0, "kind"), "magic"),
        (("model", "profile", "sequence"), []),
        (("model", "profile", "blocks"), {}),
        (("model", "profile", "pipeline_send_seconds"), None),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_path(path: tuple[Any, ...], value: Any) -> None:
    where = ".".join(map(str, path))
    assert [location for location, _ in errors(with_value(path, value))] == [where]


@pytest.mark.parametrize(
    ("model", "found"),
    [({}, "found none"), ({"name": "a", "huggingface": {}}, "found name and huggingface")],
)
def test_a_model_has_exactly_one_form(model: dict[str, Any], found: str) -> None:
    with pytest.raises(ValidationError, match=found):
        PlanRequest.model_validate({**HAND, "model": model})


def test_every_part_but_model_and_cluster_may_be_left_out() -> None:
    request = PlanRequest.model_validate({"model": {"name": "a"}, "cluster": {"name": "b"}})
    assert request.solver.time_limit_seconds == 30.0
    assert request.recompute.policy.value == "optimal"
    assert set(request.layout.model_dump().values()) == {None}


def test_null_means_for_the_solver_to_choose() -> None:
    assert small(layout={"tensor_parallel": None}) == small()


def test_a_request_cannot_be_changed_once_read() -> None:
    request = hand()
    with pytest.raises(ValidationError, match="frozen"):
        request.solver = request.solver  # type: ignore[misc]


@pytest.mark.parametrize("request_", [hand(), small()], ids=["profile", "model"])
def test_the_canonical_form_reads_back_as_the_same_request(request_: PlanRequest) -> None:
    text = json.dumps(canonical(request_))
    assert PlanRequest.model_validate_json(text) == request_
