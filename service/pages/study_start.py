"""What a scheduler's question begins with: a sample, a question asked before, or a plan."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from service.pages.asked import as_asked
from service.schema_examples import sample
from solver.plan import Plan
from solver.request import PlanRequest

_MOST_SIZES = 16
_SAMPLES = {"capacity": "capacity_request", "contingency": "contingency_request"}


def from_sample(kind: str) -> dict[str, Any]:
    """The question of the API page."""
    return dict(sample(_SAMPLES[kind]))


def as_asked_before(whole: BaseModel) -> dict[str, Any]:
    """A question that was asked, without what was left to its default."""
    around = whole.model_dump(mode="json", exclude={"job"}, exclude_defaults=True)
    job: PlanRequest = whole.job  # type: ignore[attr-defined]
    return {"job": as_asked(job)} | around


def from_plan(kind: str, request: PlanRequest, plan: Plan | None) -> dict[str, Any]:
    """The question about a plan's job; ``plan`` is its answer, if it has one."""
    return _contingency(request, plan) if kind == "contingency" else _capacity(request)


def _capacity(request: PlanRequest) -> dict[str, Any]:
    """From one node to twice as many as the plan has, in no more steps than a page shows well.

    Replicas are left open: their number is what more nodes change.
    """
    job = as_asked(request)
    job.get("cluster", {}).pop("nodes", None)
    job.get("layout", {}).pop("data_parallel", None)
    if job.get("layout") == {}:
        del job["layout"]
    most = 2 * (request.cluster.nodes or 1)
    step = -(-most // _MOST_SIZES)
    sizes = {"minimum": step, "maximum": most} | ({"step": step} if step > 1 else {})
    return {"job": job, "nodes": sizes}


def _contingency(request: PlanRequest, plan: Plan | None) -> dict[str, Any]:
    """The plan as it runs: its whole layout and its stages."""
    job = as_asked(request)
    found: dict[str, Any] = {"job": job}
    if plan is not None and plan.layout is not None:
        job["layout"] = plan.layout.model_dump(mode="json", exclude_none=True)
        if plan.layout.virtual_stages == 1:
            found["stages"] = [sum(count for _, count in stage.blocks) for stage in plan.stages]
    return found
