"""Lynx-HEU: one choice per kind and stage, hidden where asked, layers moved greedily."""

from __future__ import annotations

import pytest

from solver.assess import assess
from solver.baselines.lynx_heu import lynx_heu
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import menu_on
from solver.partition.solve import PartitionProblem
from solver.partition.stages import stages_at
from solver.planner import evaluate, plan
from solver.request import ChoicePer, Overlap, PlanRequest, Recompute
from tests.solver.overlap_samples import pipeline_with_windows
from tests.solver.test_overlap import asked


@pytest.mark.parametrize("overlap", [Overlap.OFF, Overlap.COMMUNICATION])
@pytest.mark.parametrize("seed", range(40))
def test_it_fits_and_is_never_faster_than_the_optimum(seed: int, overlap: Overlap) -> None:
    costs, schedule = pipeline_with_windows(seed, most_blocks=8)
    stages = lynx_heu(costs, schedule, overlap)
    if stages is None:
        return
    judged = assess(costs, schedule, stages)
    assert judged.fits
    for stage in stages:
        chosen = {(part.kind, part.choice) for part in stage.parts}
        assert len(chosen) == len({kind for kind, _ in chosen})
    menu = menu_on(policy_menu(costs, Recompute(overlap=overlap)), schedule)
    best = PartitionProblem(costs, menu, schedule).solve()
    assert isinstance(best, Partition)
    assert best.makespan <= judged.makespan * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(400, 425))
def test_without_windows_its_stages_are_the_best_of_one_choice_per_kind(seed: int) -> None:
    """A second way to the same: the menu of stages whose blocks choose alike."""
    costs, schedule = pipeline_with_windows(seed, most_blocks=8)
    stages = lynx_heu(costs, schedule)
    if stages is None:
        return
    menu = policy_menu(costs, Recompute(choice_per=ChoicePer.STAGE))
    cuts = tuple((stage.start, stage.stop) for stage in stages)
    alike = stages_at(costs, menu, schedule, cuts)
    assert alike is not None
    for one, other in zip(stages, alike, strict=True):
        assert sum(part.seconds for part in one.parts) == pytest.approx(
            sum(part.seconds for part in other.parts)
        )


def test_an_evaluation_of_it_hides_what_a_plan_could() -> None:
    request = asked("communication").model_dump(mode="json")
    request["recompute"]["policy"] = "lynx-heu"
    found = evaluate(PlanRequest.model_validate(request))
    assert found.fits
    assert found.stages[0].hidden_recompute_seconds > 0
    best = plan(asked("communication"))
    assert best.iteration_seconds is not None
    assert best.iteration_seconds <= found.iteration_seconds
    assert best.baselines["lynx-heu"].iteration_seconds == found.iteration_seconds


def test_a_plan_that_hides_says_what_hiding_gains() -> None:
    found, off = plan(asked("communication")), plan(asked("off"))
    assert "no-overlap" not in off.baselines
    assert found.baselines["no-overlap"].iteration_seconds == off.iteration_seconds
    assert found.baselines["no-overlap"].speed_up is not None
    assert found.baselines["no-overlap"].speed_up > 1


def test_a_plan_under_it_is_its_own_plan() -> None:
    request = asked("communication").model_dump(mode="json")
    request["recompute"]["policy"] = "lynx-heu"
    found = plan(PlanRequest.model_validate(request))
    assert found.iteration_seconds == found.baselines["lynx-heu"].iteration_seconds
    assert found.stages[0].hidden_recompute_seconds > 0
    assert found.gap == 0
