"""A finished plan run for real, where PyTorch is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from service.finished_plans import finished_plan
from service.problems import ProblemError, problem

if TYPE_CHECKING:
    from rehearsal.rehearse import Rehearsal


def rehearsed(
    plan: str,
    layers: int,
    micro_batches: int,
    hidden: int,
    repeats: int,
    *,
    store: str | None = None,
    server: str | None = None,
) -> Rehearsal:
    """Rehearse a plan; ``plan``, ``store`` and ``server`` as ``finished_plan``.

    Raises:
        ProblemError: PyTorch is missing, there is no such plan, or the processes failed.
        BadRequest: The plan's schedule cannot be run.
    """
    if find_spec("torch") is None:
        raise ProblemError(
            problem(
                501,
                "no-pytorch",
                "PyTorch is not installed",
                "A rehearsal runs the plan with PyTorch.",
                hint="Install stagecut[torch].",
            )
        )
    found, _ = finished_plan(plan, store=store, server=server)
    from rehearsal.model import Shape
    from rehearsal.rehearse import rehearse

    try:
        return rehearse(
            found,
            shape=Shape(hidden=hidden // 32 * 32, feed_forward=4 * (hidden // 32 * 32)),
            most_layers=layers,
            most_micro_batches=micro_batches,
            repeats=repeats,
        )
    except RuntimeError as error:
        raise ProblemError(
            problem(500, "rehearsal-failed", "The rehearsal failed", f"{error}")
        ) from None
