"""Steps over splits and branches of their relaxation, against every split and every choice."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.gpt_3 import gpt_3
from solver.partition import shared
from solver.partition.device_options import DeviceOptions
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import partition_problem
from solver.partition.shared import SharedProblem
from solver.request import Policy, Recompute
from solver.schedules import make_schedule
from tests.solver.every_plan import optimum
from tests.solver.partition.test_fitting_splits import sample


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small cases are solved like those that are too large for the exact program."""
    monkeypatch.setattr(shared, "SMALL", 0)
    monkeypatch.setattr(shared, "MOST_SPLITS", 0)


@pytest.mark.usefixtures("as_if_large")
def test_steps_and_branches_enclose_the_optimum_and_mostly_meet_it() -> None:
    met = proved = count = 0
    for seed in (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13):
        pipeline, costs, schedule = sample(seed)
        expected = optimum(costs, pipeline)
        found = partition_problem(costs, policy_menu(costs, Recompute()), schedule).solve()
        if isinstance(found, Infeasible):
            assert math.isinf(expected)
            continue
        assert isinstance(found, Partition)
        assert found.makespan >= expected * (1 - 1e-9)
        assert found.lower_bound <= expected * (1 + 1e-9)
        count += 1
        met += found.makespan <= expected * (1 + 1e-9)
        proved += found.lower_bound >= expected * (1 - 1e-3)
    assert count > 6
    assert met >= 0.7 * count
    assert proved >= 0.3 * count


@pytest.mark.parametrize("policy", [Policy.OPTIMAL, Policy.BLOCK])
def test_steps_never_lead_to_a_slower_plan(policy: Policy) -> None:
    costs, schedule = gpt_3(24, 16, 3.5e10), make_schedule("1f1b", 4, 16, 2)
    recompute = Recompute(policy=policy, num_layers=1 if policy is Policy.BLOCK else None)
    problem = partition_problem(costs, policy_menu(costs, recompute), schedule)
    assert isinstance(problem, SharedProblem)
    first = problem.first_makespan()
    problem.only_quickly = True
    found = problem.solve()
    assert isinstance(found, Partition)
    assert first is None or found.makespan <= first


@pytest.mark.usefixtures("as_if_large")
def test_solved_again_a_layout_is_proved_no_worse() -> None:
    costs, schedule = gpt_3(14, 8, 3.2e10), make_schedule("1f1b", 2, 8, 2)
    problem = partition_problem(costs, policy_menu(costs, Recompute()), schedule)
    assert isinstance(problem, SharedProblem)
    before = problem.solve(relative_gap=1e-9)
    assert isinstance(before, Partition)
    assert problem.may_gain
    after = problem.solve(relative_gap=1e-9)
    assert isinstance(after, Partition)
    assert after.makespan <= before.makespan
    assert before.lower_bound <= after.lower_bound <= after.makespan


def test_ways_of_a_device_fit_and_the_one_that_counts_least_is_taken() -> None:
    costs, schedule = gpt_3(24, 16, 3.2e10), make_schedule("1f1b", 4, 16, 2)
    problem = partition_problem(costs, policy_menu(costs, Recompute()), schedule)
    assert isinstance(problem, SharedProblem)
    options: DeviceOptions = problem._options
    edges = [0, 4, 7, 10, 13, 16, 20, 23, 26]
    runs = problem._signatures.of_run[edges[:-1], edges[1:]][None]
    for emphasis in range(schedule.stages):
        weights = [1.0 + 9.0 * (stage == emphasis) for stage in range(schedule.stages)]
        seconds = options.best(runs, np.array(weights))[0]
        assert math.isfinite(seconds.sum())
        mixes = options.mixes(runs[0], seconds)
        assert [mix.seconds for mix in mixes] == pytest.approx(seconds.tolist())
        for device, menu in enumerate(problem._device_menus()):
            stages = schedule.stages_of(device)
            states = float(problem._totals.states[runs[0, stages]].sum())
            assert menu.fits([list(mixes[stage].parts) for stage in stages], states)
            own = options.of(device, runs[0, stages])
            assert own is not None
            weighed = own.seconds @ [weights[stage] for stage in stages]
            assert weighed.min() == pytest.approx(
                sum(seconds[stage] * weights[stage] for stage in stages)
            )
