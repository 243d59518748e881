"""What people call a request: short titles for lists and tables."""

from __future__ import annotations

from solver.request import PlanRequest

_LONGEST = 200


def model(request: PlanRequest) -> str:
    """The model's name, or the kind of its description."""
    described = request.model
    if described.name is not None:
        return _clean(described.name)
    if described.huggingface is not None:
        for key in ("_name_or_path", "model_type"):
            given = described.huggingface.get(key)
            if isinstance(given, str) and given:
                return _clean(given)
        return "config.json"
    if described.profile is not None:
        return f"profile of {sum(count for _, count in described.profile.sequence):,} blocks"
    return "Megatron-LM arguments"


def device(request: PlanRequest) -> str | None:
    """The device's name, if the request names one."""
    name = request.cluster.device or request.cluster.name
    return _clean(name) if name else None


def _clean(title: str) -> str:
    """Printable and of bounded length, whatever the caller sent."""
    return "".join(sign for sign in title if sign.isprintable())[:_LONGEST]
