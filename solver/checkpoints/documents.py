"""What is asked for advice on checkpoints, and the advice."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from solver.plan import Answer, Plan
from solver.request import Job, Seconds
from solver.strict import Strict
from solver.transitions.documents import RESTART_SECONDS, Rate

FAILURES_PER_DEVICE_HOUR = 2.0e-5
"""Unexpected interruptions of Llama 3 405B's training: 419 in 54 days on 16,384 H100
(arXiv:2407.21783, section 3.3.4 and table 5)."""


class CheckpointTerms(Strict):
    """Where checkpoints go and how often devices fail."""

    storage_bytes_per_second: Rate = Field(
        description="At which a checkpoint is written and read, all devices together."
    )
    failures_per_device_hour: Annotated[float, Field(gt=0, le=1e3, allow_inf_nan=False)] = Field(
        default=FAILURES_PER_DEVICE_HOUR,
        description="Failures that end the run; by default those of Llama 3's training.",
    )
    pause_seconds: Seconds | None = Field(
        default=None,
        description="For which a checkpoint stops the run; writing all of it if absent. Give the "
        "time of the copy where it is written in the background.",
    )
    restart_seconds: Seconds = Field(
        default=RESTART_SECONDS,
        description="Detecting, rendezvous and starting again; reading the checkpoint comes on "
        "top.",
    )


class CheckpointRequest(Strict):
    """A plan, its request, and the terms."""

    job: Job = Field(description="The plan's request.")
    plan: Plan = Field(description="The plan as it was answered.")
    terms: CheckpointTerms = Field(description="Where checkpoints go and how often devices fail.")


class CheckpointAdvice(Answer):
    """How often to write checkpoints, and what that leaves of the plan's speed."""

    plan_id: str = Field(description="Of the plan.")
    interval_seconds: float = Field(description="Of work between two checkpoints.")
    interval_iterations: int = Field(description="The same in iterations: whole ones.")
    goodput: float = Field(description="Share of time that is work which is not done again.")
    samples_per_second: float | None = Field(
        default=None, description="Sequences per second with that taken off; null for a profile."
    )
    young_seconds: float = Field(description="Young's first-order interval, sqrt(2 C M).")
    daly_seconds: float = Field(description="Daly's higher-order interval.")
    failure_seconds: float = Field(description="Mean time between failures of the job, M.")
    pause_seconds: float = Field(description="What a checkpoint costs, C.")
    restart_seconds: float = Field(description="What a failure costs beside lost work, R.")
    state_bytes: float = Field(description="A checkpoint's size.")
    checkpoint_share: float = Field(description="Of the time, spent on checkpoints.")
    failure_share: float = Field(description="Of the time, lost to failures.")
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the advice should know."
    )
