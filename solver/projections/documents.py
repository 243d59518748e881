"""What is asked for a projection, and its answer."""

from __future__ import annotations

from pydantic import Field

from solver.plan import Answer, Evaluation, Export, Plan
from solver.request import Job
from solver.strict import Name, Strict


class ProjectionRequest(Strict):
    """A plan, what it answers, and the framework that is to run it."""

    job: Job = Field(description="What the plan answers.")
    plan: Plan = Field(description="A plan that succeeded.")
    framework: Name = Field(description="The framework's name.")


class Figures(Answer):
    """What a plan comes to."""

    iteration_seconds: float = Field(description="Of one iteration.")
    peak_memory_bytes: float = Field(description="The fullest device.")
    fits: bool = Field(description="Whether every device stays within the memory limit.")


class Projection(Answer):
    """A plan beside the nearest that a framework can run."""

    framework: str = Field(description="Its name.")
    version: str = Field(description="Its version that the rules are of.")
    plan: Figures = Field(description="The plan as it was made.")
    projected: Evaluation | None = Field(
        description="What the framework can be told of it; null if nothing of it fits."
    )
    setting: dict[str, bool | int | str | list[str]] = Field(
        default_factory=dict,
        description="The recompute setting in the framework's own words; empty where layers or "
        "stages are told apart.",
    )
    slower: float | None = Field(
        default=None, description="By what share the projected plan is slower; null without one."
    )
    changes: list[str] = Field(
        default_factory=list, description="What had to change beside recompute."
    )
    export: Export | None = Field(
        default=None, description="The projected plan in the framework's own words."
    )
    error: str | None = Field(default=None, description="Why nothing of it can be run, in words.")
