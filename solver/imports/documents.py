"""What is asked about a run of today, and its answer."""

from __future__ import annotations

from pydantic import Field

from solver.plan import Answer, Evaluation, Plan
from solver.request import Job
from solver.strict import Name, Strict


class ImportStudy(Strict):
    """Today's run, and the same question with split and recompute open."""

    framework: Name = Field(description="The framework that runs it.")
    today: Job = Field(description="What the configuration says, to be evaluated.")
    job: Job = Field(description="The same, its split and recompute open, to be planned.")
    setting: dict[str, bool | int | str] = Field(
        default_factory=dict,
        description="Today's recompute in the framework's own words where no policy says it.",
    )
    time_limit_seconds: float = Field(description="For all of it.")


class ImportAnswer(Answer):
    """Yours, the best for your framework, the best of all, and the lines that change."""

    id: str = Field(description="Content address of the question under this solver version.")
    status: str = Field(description="`succeeded`, or `infeasible` if nothing fits these sizes.")
    framework: str = Field(description="Whose configuration was read.")
    yours: Evaluation = Field(description="What runs today.")
    best: Plan = Field(
        description="The best plan that the framework runs at the same parallel sizes; its "
        "`restriction` says the time of the best plan of all."
    )
    given_up: list[str] = Field(
        default_factory=list, description="Lines of today's configuration that go."
    )
    taken_up: list[str] = Field(default_factory=list, description="Lines that come.")
    words: list[str] = Field(default_factory=list, description="The same in a few sentences.")
