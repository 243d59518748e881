"""What a reader takes in first says what the plan says."""

from __future__ import annotations

from service.pages.choices import choices
from service.pages.plan_page import report
from service.pages.shown import ShownPlan
from service.pages.summary import how_sure, what_it_is, why_it_is_good
from service.pages.words import certificate
from solver.plan import Choice, Plan
from tests.service.pages.plans import long_pipeline, sample_plan


def changed(**fields: object) -> Plan:
    return sample_plan().plan.model_copy(update=fields)


def test_the_plan_is_told_by_its_stages_and_what_it_recomputes() -> None:
    cut, again = what_it_is(sample_plan().plan)
    assert cut == "2 stages of 4 blocks."
    assert again == "4 of 8 blocks recompute something: norm, attention."
    assert what_it_is(long_pipeline().plan)[0] == "64 stages of 4 blocks."
    stages = [s.model_copy(update={"recompute": []}) for s in sample_plan().plan.stages]
    assert what_it_is(changed(stages=stages))[1] == "Nothing is recomputed."


def test_it_is_good_beside_full_recompute_the_best_other_and_what_nothing_would_need() -> None:
    told = [f"{fact.figure} {fact.words}" for fact in why_it_is_good(sample_plan().plan)]
    assert told == [
        "7.8% faster than recomputing every layer (627 ms)",
        "even with the best other method that fits, even-split (582 ms)",
        "23.1 GiB would be needed to recompute nothing; a device has 21.4 GiB for use",
        "2% slower at least: the next best layout",
    ]
    assert why_it_is_good(changed(baselines={}, alternatives=[])) == []


def test_how_sure_it_is_says_the_gap_the_layouts_and_the_band_of_real_iterations() -> None:
    told = [f"{fact.figure} {fact.words}" for fact in how_sure(sample_plan().plan)]
    assert told[0] == "0% from the proved bound: no plan takes less than 582 ms"
    assert told[1].startswith("1 layout asked for")
    banded = how_sure(changed(iteration_seconds_band=(0.5, 0.7)))
    assert banded[-1].figure == "500 ms to 700 ms"


def test_the_certificate_says_what_the_bound_rests_on_and_how_to_verify_it() -> None:
    plain = sample_plan().plan
    assert plain.solver is not None
    by_bounds = dict(
        certificate(changed(solver=plain.solver.model_copy(update={"engine": "bounds"})))
    )
    assert "no row had to be added" in by_bounds["Rests on"]
    solved = plain.solver.model_copy(
        update={"engine": "highs", "rows": 17, "rounds": 2, "layouts_considered": 5419}
    )
    found = dict(certificate(changed(solver=solved)))
    assert found["Claim"] == "No plan in the space asked for takes less than 582 ms."
    assert "17 rows were added in 2 rounds" in found["Rests on"]
    assert "5,419 legal layouts" in found["Space"]
    shown = sample_plan()
    assert "stagecut verify plan.json" in report("x", shown)
    assert certificate(changed(lower_bound_seconds=None)) == []


def test_what_a_choice_costs_is_a_bound_a_span_or_open() -> None:
    def choice(value: int, least: float, most: float | None, *, chosen: bool = False) -> Choice:
        return Choice(
            field="tensor_parallel",
            value=value,
            chosen=chosen,
            iteration_seconds=None,
            lower_bound_seconds=1.0,
            slower_at_least=least,
            slower_at_most=most,
        )

    asked = [choice(1, 0.0, None), choice(2, 0.0, 0.0, chosen=True), choice(4, 0.012, None)]
    plan = changed(choices=[*asked, choice(8, 0.0, 0.081)])
    assert [v.slower for v in choices(plan)["tensor parallel"]] == [
        "not told apart",
        "0%",
        "≥ 1.2%",
        "0% to 8.1%",
    ]
    text = report("x", ShownPlan(sample_plan().request, plan))
    assert "≥ 1.2%" in text
