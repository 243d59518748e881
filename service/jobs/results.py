"""How a solve ended, in the words of the store: from an outcome, or from what kept it away."""

from __future__ import annotations

from service.jobs.pool import Outcome
from service.problems import Problem, problem
from service.store import plans


def result_of(outcome: Outcome) -> plans.Result:
    """What a solver process gave."""
    if outcome.problem is not None:
        return failure(outcome.problem)
    assert outcome.status is not None
    return plans.Result(
        status=outcome.status,
        answer=outcome.answer,
        iteration_seconds=outcome.iteration_seconds,
        gap=outcome.gap,
    )


def failure(problem: Problem) -> plans.Result:
    """A plan that failed."""
    return plans.Result(status="failed", problem=problem.to_json())


def deadline_passed() -> plans.Result:
    """There was no plan when its deadline came."""
    return failure(
        problem(
            504,
            "deadline-passed",
            "The deadline passed",
            "The plan was not found before its deadline.",
            hint="Give a later deadline, or fix more of the layout.",
        )
    )


def too_slow(seconds: float) -> plans.Result:
    """The solver did not stop by itself."""
    return failure(
        problem(
            504,
            "solver-too-slow",
            "The solver did not keep its time limit",
            f"The solver was stopped after {seconds:g} s.",
            field="solver.time_limit_seconds",
            hint="Fix more of the layout, or give a longer time limit.",
        )
    )


def given_up(reason: str, attempts: int) -> plans.Result:
    """The process that solved it ended each time."""
    return failure(
        problem(
            500,
            "solver-crashed",
            "The solver crashed",
            f"{reason}; given up after {attempts} attempts.",
            hint="Fix more of the layout or lower solver.time_limit_seconds; report it if"
            " that does not help.",
        )
    )
