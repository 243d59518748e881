"""Which stages of a given split recompute ahead of the gradient, judged by the simulator."""

from __future__ import annotations

from dataclasses import replace

from solver.assess import assess
from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Menu
from solver.partition.stages import Stage, stage_at
from solver.schedules import Schedule, Work


def ahead_where_it_helps(
    costs: PipelineCosts,
    schedule: Schedule,
    menu: Menu,
    stages: tuple[Stage, ...],
) -> tuple[Stage, ...]:
    """The stages, those ahead that make the iteration shorter, one after the other as it pays most.

    Args:
        costs: What each block costs.
        schedule: A schedule in which stages may recompute ahead; else all stay as they are.
        menu: What blocks may choose, on demand; it knows the menu ahead.
        stages: The stages on demand.
    """
    if Work.RECOMPUTE not in schedule.work:
        return stages
    options: dict[int, Stage] = {}
    for at, stage in enumerate(stages[:-1]):  # the last one waits for no gradient
        made = stage_at(costs, menu.ahead(), schedule, at, (stage.start, stage.stop))
        if made is not None and any(part.seconds > 0 for part in made.parts):
            options[at] = replace(made, ahead=True)
    best, seconds = stages, assess(costs, schedule, stages).makespan
    while options:
        tried = {at: (*best[:at], stage, *best[at + 1 :]) for at, stage in options.items()}
        judged = {at: assess(costs, schedule, made).makespan for at, made in tried.items()}
        at = min(judged, key=lambda stage: (judged[stage], stage))
        if judged[at] >= seconds:
            break
        best, seconds = tried[at], judged[at]
        del options[at]
    return best
