"""What the command line writes beside its answer: a report to look at, a trace to open."""

from __future__ import annotations

from pathlib import Path

from service.problems import ProblemError, problem
from solver.plan import Plan
from solver.request import PlanRequest


def write_report(request: PlanRequest, plan: Plan, file: str) -> None:
    """Write the plan's page as one HTML file.

    Raises:
        ProblemError: The file cannot be written.
    """
    from service.pages import plan_page
    from service.pages.shown import ShownPlan

    write(file, plan_page.report(plan.id, ShownPlan(request, plan)))


def write_trace(request: PlanRequest, plan: Plan, file: str) -> None:
    """Write the plan's timeline as a trace for Perfetto.

    Raises:
        ProblemError: The file cannot be written, or there is no timeline.
    """
    from service.pages.shown import ShownPlan
    from service.pages.trace import trace

    shown = ShownPlan(request, plan)
    if not shown.has_stages:
        raise ProblemError(
            problem(422, "no-timeline", "There is no timeline", "Without a plan nothing is traced.")
        )
    write(file, trace(shown.replay, shown.title))


def write_pictures(request: PlanRequest, plan: Plan, folder: str) -> None:
    """Write every picture of the plan's page as SVG and as PNG; there is none of what it lacks.

    Raises:
        ProblemError: A file cannot be written.
    """
    from service.pages import plan_page
    from service.pages.drawings import PICTURES, View
    from service.pages.shown import ShownPlan

    shown = ShownPlan(request, plan)
    place = Path(folder)
    for name in PICTURES:
        for kind in ("svg", "png"):
            content = plan_page.picture(shown, name, View(), kind)
            if content is not None:
                _write(place / f"{name}.{kind}", content, makes_folder=True)


def write(file: str, text: str) -> None:
    """Write a text file.

    Raises:
        ProblemError: It cannot be written.
    """
    _write(Path(file), text.encode())


def _write(file: Path, content: bytes, *, makes_folder: bool = False) -> None:
    try:
        if makes_folder:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise ProblemError(
            problem(400, "no-output", "The file cannot be written", f"{file}: {error.strerror}.")
        ) from None
