"""A plan's measured iteration as a run that calibrations are fitted to.

Such a run is an even split under a policy, which a plan rarely is. What carries over is how much
slower the plan ran than expected: the run is the even split under the policy that recomputes most
nearly as much, measured as so many times its own expected seconds.
"""

from __future__ import annotations

from typing import Any

from solver.assess import assess
from solver.costs.pipeline import PipelineCosts
from solver.expected.documents import ObservedRequest
from solver.expected.expected import as_run
from solver.partition.policy_menu import policy_menu
from solver.partition.stages import Stage, stages_at, with_ample_memory
from solver.question import given_cuts, only_layout, question
from solver.request import Policy, Recompute
from solver.schedules import Schedule, make_schedule

_SCHEDULES = ("1f1b", "gpipe")


def measured_run(request: ObservedRequest) -> tuple[dict[str, Any] | None, list[str]]:
    """The run (a ``MeasuredRun`` as plain data), and what to know of it."""
    plan, seconds = request.plan, request.measured.iteration_seconds
    if seconds is None or plan.layout is None or not plan.iteration_seconds:
        return None, []
    if request.job.model.profile is not None or plan.layout.schedule not in _SCHEDULES:
        return None, ["Calibrations are fitted to 1F1B and GPipe runs of models, not profiles."]
    job = as_run(request.job, plan.layout).model_copy(update={"target": None, "calibration": None})
    policy, usual = _nearest(request, job)
    run = job.model_copy(update={"recompute": Recompute(policy=policy)})
    note = (
        f"Plan {plan.id}: {seconds / plan.iteration_seconds:.4g} times its expected seconds, "
        f"carried over to the even split with recompute {policy.value}."
    )
    return {
        "id": f"plan-{plan.id}",
        "group": plan.id,
        "source": request.measured.source,
        "note": note,
        "request": run.model_dump(mode="json", exclude_defaults=True),
        "measured": {"iteration_seconds": seconds / plan.iteration_seconds * usual},
    }, []


def _nearest(request: ObservedRequest, job: Any) -> tuple[Policy, float]:
    """The policy whose recompute seconds are nearest to the plan's, and its iteration seconds."""
    asked = question(job)
    layout = only_layout(asked)
    costs = asked.costs(layout)
    schedule = make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        costs.micro_batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
    cuts = given_cuts(asked, costs, schedule)
    planned = sum(stage.recompute_seconds for stage in request.plan.stages)
    best: tuple[float, Policy, float] | None = None
    for policy in (Policy.NONE, Policy.SELECTIVE, Policy.FULL):
        stages = _stages(costs, policy, schedule, cuts)
        assessment = assess(costs, schedule, stages)
        apart = abs(sum(time.recompute for time in assessment.times) - planned)
        if best is None or apart < best[0]:
            best = (apart, policy, assessment.makespan)
    assert best is not None
    return best[1], best[2]


def _stages(
    costs: PipelineCosts, policy: Policy, schedule: Schedule, cuts: tuple[tuple[int, int], ...]
) -> tuple[Stage, ...]:
    ample = with_ample_memory(costs)
    stages = stages_at(ample, policy_menu(ample, Recompute(policy=policy)), schedule, cuts)
    assert stages is not None, "everything fits an ample memory"
    return stages
