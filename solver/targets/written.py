"""A finished plan in a framework's words: the setting that it was planned for, where it was."""

from __future__ import annotations

from solver.plan import Export, Plan
from solver.request import Training
from solver.targets.planned import Planned, planned_for
from solver.targets.registry import target_named


def written(plan: Plan, framework: str, training: Training | None = None) -> Export:
    """The plan as the framework takes it.

    Args:
        plan: A plan that succeeded.
        framework: The framework's name.
        training: The run that it was made for; without it sequence length and precision stay out.

    Raises:
        UnknownName: No such framework.
        BadRequest: The plan holds no stages.
    """
    return target_named(framework, "framework").exported(planned(plan, framework, training))


def planned(plan: Plan, framework: str, training: Training | None = None) -> Planned:
    """The plan as that framework's writer sees it; errors as ``written``."""
    target = target_named(framework, "framework")
    made_for = plan.restriction
    setting = None
    if made_for is not None and made_for.framework in (target.name, *target.settings_of):
        setting = made_for.setting
    return planned_for(training or Training(), plan, setting)
