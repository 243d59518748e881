"""The page of contingencies: for every kind of failure what can be done, best first."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi.responses import HTMLResponse

from service.console.layouts import layout_in_short
from service.pages import render
from solver.contingencies.documents import ActionKind, ContingencyAnswer, Course, Reduced

_MOST_NAMED = 4
_WORDS = {
    ActionKind.KEEP_WITH_SPARE: "put a spare in its place",
    ActionKind.DROP_REPLICA: "drop the replica",
    ActionKind.REROUTE: "send its work to other replicas",
    ActionKind.REPARTITION: "plan again on what is left",
    ActionKind.SHRINK: "go on with fewer nodes",
}


@dataclass(frozen=True)
class Way:
    """One way to go on after a failure."""

    course: Course
    plan: Reduced
    action: str
    layout: str


def page(study_id: str, heading: str, answer: ContingencyAnswer, planned: set[str]) -> HTMLResponse:
    """The page; ``planned`` are those of its plans that there are."""
    return render.page(
        "contingencies.html",
        study_id=study_id,
        title=heading,
        answer=answer,
        planned=planned,
        classes=[
            (failure, [_way(answer, course) for course in failure.courses])
            for failure in answer.classes
        ],
        examples=[_example(answer, failure.failed) for failure in answer.classes],
        templates=[
            (template.nodes, None if template.plan is None else answer.plans[template.plan])
            for template in answer.templates
        ],
        in_short=layout_in_short,
    )


def plan_ids(answer: ContingencyAnswer) -> set[str]:
    """The plans that the answer speaks of."""
    return {plan.plan_id for plan in answer.plans if plan.plan_id}


def _example(answer: ContingencyAnswer, failed: list[int]) -> str:
    names = [answer.nodes[position].name for position in failed[:_MOST_NAMED]]
    more = len(failed) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _way(answer: ContingencyAnswer, course: Course) -> Way:
    plan = answer.plans[course.plan]
    layout = layout_in_short(plan.layout) if plan.layout else "the running layout"
    return Way(course, plan, _WORDS[plan.action], layout)
