"""Fills a request with what its Megatron-LM flags say."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from solver.request import LayoutRequest, PlanRequest, Recompute, Training
from solver.workload.megatron.run import MegatronRun, Settings

_Part = TypeVar("_Part", bound=BaseModel)


def completed(request: PlanRequest, run: MegatronRun) -> PlanRequest:
    """The request with training, layout and recompute filled where it leaves them out.

    What the request itself says, wins. A recompute policy is taken as a whole: the flags' numbers
    belong to the flags' policy.
    """
    recompute = request.recompute
    if "policy" not in recompute.model_fields_set:
        recompute = _filled(Recompute, recompute, run.recompute)
    return request.model_copy(
        update={
            "training": _filled(Training, request.training, run.training),
            "layout": _filled(LayoutRequest, request.layout, run.layout),
            "recompute": recompute,
        }
    )


def _filled(kind: type[_Part], part: _Part, settings: Settings) -> _Part:
    """The part with these settings wherever it was given nothing, validated again."""
    given = {
        name: value for name in part.model_fields_set if (value := getattr(part, name)) is not None
    }
    return kind.model_validate({**settings, **given})
