"""A request as it was asked: without what was left to its default."""

from __future__ import annotations

from typing import Any

from solver.request import PlanRequest


def as_asked(request: PlanRequest) -> dict[str, Any]:
    """The request as JSON, defaults left out.

    Megatron-LM's flags fill what a request leaves out, so beside them what was spelt out stays.
    """
    flags = request.model.megatron_args is not None
    return request.model_dump(mode="json", exclude_unset=flags, exclude_defaults=not flags)
