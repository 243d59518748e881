"""A given split under a framework's own recompute setting, costed, whether it fits or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from solver import answer
from solver.assess import assess
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.layouts import listed
from solver.partition.even import even_split
from solver.partition.stages import AMPLE_BYTES, decided_stages
from solver.plan import Evaluation
from solver.question import Question, only_layout, question
from solver.request import PlanRequest
from solver.search.outcome import Found
from solver.search.search import search
from solver.targets.target import Target
from solver.verify import verify


def under_setting(
    request: PlanRequest, target: Target, setting: Mapping[str, object], field: str
) -> Evaluation:
    """The even split of the request's layout under this setting.

    Raises:
        BadRequest: The framework has no such setting for this model; ``field`` says where.
    """
    asked = question(request)
    layout = only_layout(asked)
    costs = asked.costs(layout)
    ample = replace(costs, capacity_bytes=AMPLE_BYTES)
    split = even_split(costs, layout.pipeline_parallel * layout.virtual_stages)
    regimes = [
        replace(regime, splits=(split,), admits=None, bound=0.0, lower=None)
        for regime in target.regimes(ample, layout)
        if dict(regime.setting) == dict(setting)
    ]
    outcome = search(
        listed([layout], [costs.micro_batches]),
        lambda _: ample,
        lambda _, __: regimes,
        relative_gap=0.0,
        time_limit_seconds=request.solver.time_limit_seconds,
    )
    if not regimes or outcome.found is None:
        raise BadRequest(
            f"What {target.title} recompute like that costs on this model is not known.",
            field=field,
            hint="Give full recompute or none.",
        )
    return settled(asked, outcome.found, costs)


def settled(asked: Question, found: Found, costs: PipelineCosts) -> Evaluation:
    """What was found as an evaluation, independently checked.

    Args:
        asked: The question.
        found: The stages.
        costs: Those of the layout, memory included.
    """
    stages = decided_stages(found.partition, found.menu)
    layout, schedule = found.layout, found.schedule
    work, used = asked.work(layout), asked.calibrated.used if asked.calibrated else None
    assessment = assess(costs, schedule, stages)
    made = answer.evaluation(costs, layout, schedule, stages, assessment, work, asked.notes, used)
    verify(
        costs,
        layout.schedule,
        layout.pipeline_parallel,
        made.stages,
        made.iteration_seconds,
        made.fits,
        layout.interleaving_group,
    )
    return made
