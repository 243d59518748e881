"""What is expected of a running plan, what was measured, and what that says."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from solver.plan import Answer, Plan
from solver.request import Job
from solver.strict import Name, Strict

Measurement = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Index = Annotated[int, Field(ge=0, le=1_000_000)]
Band = tuple[float, float]


class ExpectedRequest(Strict):
    """A plan and its request."""

    job: Job = Field(description="The plan's request.")
    plan: Plan = Field(description="The plan as it was answered.")


class ExpectedStage(Answer):
    """What one stage does and holds."""

    index: int = Field(description="Pipeline rank.")
    chunk: int | None = Field(default=None, description="Model chunk on that rank.")
    ranks: tuple[int, int] | None = Field(
        default=None, description="First and last rank of its devices; null in other rank orders."
    )
    forward_seconds: float = Field(description="One micro-batch.")
    forward_band: Band = Field(description="Where a measurement is no news.")
    backward_seconds: float = Field(description="One micro-batch, with what it recomputes.")
    backward_band: Band = Field(description="Where a measurement is no news.")
    peak_memory_bytes: float = Field(description="With context and reserve, as the plan counts.")
    allocated_peak_bytes: float = Field(description="What the allocator hands out at most.")
    allocated_steady_bytes: float = Field(description="What it holds between iterations.")


class ExpectedCollective(Answer):
    """One collective, alone on its links."""

    name: str = Field(description="What observations call it.")
    kind: str = Field(
        description="all-reduce, all-gather, reduce-scatter, all-to-all, "
        "dispatch (of tokens, once to each node) or send."
    )
    devices: int = Field(description="Ranks of its group.")
    nodes: int = Field(description="Nodes that the group touches.")
    stage: int | None = Field(default=None, description="Pipeline rank; null: on every one.")
    size_bytes: float = Field(description="The buffer, as nccl-tests counts it.")
    seconds: float = Field(description="One call.")
    seconds_band: Band = Field(description="Where a measurement is no news.")
    bus_bytes_per_second: float = Field(description="Bus bandwidth, as nccl-tests reports it.")


class ExpectedAnswer(Answer):
    """What a monitor may hold a run against."""

    plan_id: str = Field(description="Of the plan.")
    iteration_seconds: float = Field(description="One iteration.")
    iteration_band: Band = Field(description="Where a measurement is no news.")
    tokens_per_second_per_device: float | None = Field(
        default=None, description="Null for a profile."
    )
    stages: list[ExpectedStage] = Field(description="In model order.")
    collectives: list[ExpectedCollective] = Field(
        default_factory=list, description="Those that the cost model knows one by one."
    )
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the figures should know."
    )


class ObservedStage(Strict):
    """What was measured of a stage, on all replicas or on one."""

    index: Index = Field(description="Pipeline rank.")
    chunk: Index | None = Field(default=None, description="Model chunk on that rank.")
    replica: Index | None = Field(default=None, description="Data-parallel rank, if of one only.")
    forward_seconds: Measurement | None = Field(default=None, description="One micro-batch.")
    backward_seconds: Measurement | None = Field(
        default=None, description="One micro-batch, with what it recomputes."
    )
    peak_memory_bytes: Measurement | None = Field(
        default=None, description="What the allocator handed out at most."
    )


class ObservedCollective(Strict):
    """What was measured of a collective."""

    name: Name = Field(description="As in what is expected.")
    stage: Index | None = Field(default=None, description="Pipeline rank of its ranks.")
    replica: Index | None = Field(default=None, description="Data-parallel rank of its ranks.")
    seconds: Measurement | None = Field(default=None, description="One call.")
    bus_bytes_per_second: Measurement | None = Field(
        default=None, description="Instead of seconds: bus bandwidth."
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.seconds is None) == (self.bus_bytes_per_second is None):
            raise ValueError("give either seconds or bus_bytes_per_second")
        return self


class Observations(Strict):
    """What was measured of a running plan."""

    iteration_seconds: Measurement | None = Field(
        default=None, description="One iteration, the update included."
    )
    stages: list[ObservedStage] = Field(
        default_factory=list, max_length=65_536, description="By stage, or by stage and replica."
    )
    collectives: list[ObservedCollective] = Field(
        default_factory=list, max_length=65_536, description="By group."
    )
    source: Annotated[str, Field(max_length=400)] | None = Field(
        default=None, description="Where the measurements come from."
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.iteration_seconds is None and not self.stages and not self.collectives:
            raise ValueError("nothing was measured")
        return self


class ObservedRequest(Strict):
    """A plan, its request, and what was measured."""

    job: Job = Field(description="The plan's request.")
    plan: Plan = Field(description="The plan as it was answered.")
    measured: Observations = Field(description="What was measured.")


class Judged(Answer):
    """One measurement beside what was expected."""

    what: str = Field(description="What was measured.")
    stage: int | None = Field(default=None, description="Pipeline rank.")
    replica: int | None = Field(default=None, description="Data-parallel rank.")
    measured: float = Field(description="Seconds or bytes.")
    expected: float = Field(description="The same, expected.")
    ratio: float = Field(description="Measured over expected.")
    against_its_like: float = Field(
        description="That ratio over the median of all measurements of the kind."
    )
    outside_band: bool = Field(description="Whether it lies where a measurement is news.")
    stands_out: bool = Field(description="Whether it is slower or larger than its like.")


class ObservationAnswer(Answer):
    """What measurements say of a running plan."""

    plan_id: str = Field(description="Of the plan.")
    judged: list[Judged] = Field(description="Every measurement, as given.")
    deviations: list[str] = Field(
        description="In words, which stage, device or link deviates; the farthest first."
    )
    run: dict[str, Any] | None = Field(
        default=None,
        description="The same as a run for `POST /v1/calibrations`; null without an iteration's "
        "seconds or where no run can say it.",
    )
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the judgement should know."
    )
