"""Answers are readable: on 80 columns, on wide terminals, in pipes and without Unicode."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from service.console.answers import page
from service.console.recipes import Recipes
from solver.plan import Alternative, Evaluation, Plan, Status
from tests.service.samples import EVALUATION, INFEASIBLE, PLAN, REQUEST, STAGES


def shown(answer: Plan | Evaluation, width: int = 80, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width, highlight=False).print(page(REQUEST, answer))
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("answer", [PLAN, INFEASIBLE, EVALUATION])
@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_line_is_longer_than_the_terminal(answer: Plan | Evaluation, width: int) -> None:
    assert max(len(line) for line in shown(answer, width).splitlines()) <= width


def test_the_verdict_says_how_long_how_sure_and_how_much_better() -> None:
    said = " ".join(shown(PLAN).split())
    assert "One iteration takes 17.4 s" in said
    assert "within 0.07% of the best" in said
    assert "1.24x as fast as recomputing everything." in said
    assert "Recomputing nothing does not fit." in said


def test_every_stage_has_its_blocks_its_recompute_and_its_memory() -> None:
    lines = shown(PLAN, 120).splitlines()
    stage = next(line for line in lines if line.startswith("     1"))
    for part in ("20 layer", "20 B", "21.3", "46.7", "71.0"):
        assert part in stage


def test_tensors_of_one_module_are_brought_together() -> None:
    assert "mlp.{up, gate, act}" in " ".join(shown(PLAN, 160).split())


def test_a_bar_is_full_only_when_nothing_is_left() -> None:
    assert "████████" not in shown(PLAN)
    assert "▌  75.0" in shown(PLAN)


def test_without_unicode_it_is_still_a_table() -> None:
    text = shown(PLAN, encoding="ascii")
    assert "#######." in text
    assert "71.0" in text


def test_an_infeasible_plan_says_what_is_missing_and_where() -> None:
    said = " ".join(shown(INFEASIBLE).split())
    assert "No plan fits." in said
    assert "stage 0 needs 91.6 GiB of 79.1 GiB: 12.5 GiB are missing" in said


def test_an_evaluation_that_does_not_fit_says_so() -> None:
    said = " ".join(shown(EVALUATION).split())
    assert "does not fit: it needs 91.6 GiB of 79.1 GiB per device" in said
    assert "Note: The fabric was taken to be" in said


def test_a_failed_plan_says_why() -> None:
    failed = Plan(id="f" * 32, status=Status.FAILED, error="It crashed.")
    assert "failed: It crashed." in shown(failed)


def test_the_letters_of_the_table_are_explained() -> None:
    lines = [" ".join(line.split()) for line in shown(PLAN).splitlines()]
    assert "A layer recomputes norm_1, mlp.{up, gate, act}" in lines
    assert "B layer recomputes norm_1" in lines


def test_stages_that_do_the_same_share_a_row() -> None:
    same = [STAGES[2].model_copy(update={"index": index}) for index in (2, 3, 4)]
    plan = PLAN.model_copy(update={"stages": [*STAGES[:2], *same]})
    assert any(line.startswith("   2-4") for line in shown(plan).splitlines())


def test_no_cell_of_the_stages_is_wrapped_on_80_columns() -> None:
    lines = shown(PLAN, 80).splitlines()
    head = next(i for i, line in enumerate(lines) if "blocks" in line and "stage" in line)
    rows = lines[head + 2 : head + 2 + len(PLAN.stages)]
    assert [row.split()[0] for row in rows] == [str(stage.index) for stage in PLAN.stages]


def test_layouts_that_lost_say_by_how_much() -> None:
    assert PLAN.layout is not None
    other = PLAN.layout.model_copy(update={"tensor_parallel": 1, "zero_stage": 3})
    lost = [
        Alternative(layout=other, iteration_seconds=18.0, lower_bound_seconds=17.9, slower=0.034),
        Alternative(layout=other, iteration_seconds=None, lower_bound_seconds=19.0, slower=0.09),
    ]
    said = " ".join(shown(PLAN.model_copy(update={"alternatives": lost})).split())
    assert "tensor 1" in said
    assert "ZeRO 3 18.0 s +3.4%" in said
    assert "at least 19.0 s +9%" in said


def test_stages_on_different_devices_say_their_own_limits() -> None:
    stages = [
        stage.model_copy(update={"memory_limit_bytes": (38.5 if i else 79.1) * 2**30})
        for i, stage in enumerate(STAGES)
    ]
    said = shown(PLAN.model_copy(update={"stages": stages}), 120)
    assert "of 79.1" in said
    assert "of 38.5" in said
    for width in (80, 100):
        lines = shown(EVALUATION.model_copy(update={"stages": stages}), width).splitlines()
        assert max(len(line) for line in lines) <= width
        assert "of 38.5 GiB on the device of stage" in " ".join(" ".join(lines).split())
    alike = shown(PLAN, 120)
    assert "of 38.5" not in alike


def test_a_letter_says_what_waits_in_host_memory() -> None:
    recipes = Recipes()
    stage = STAGES[0]
    entry = stage.recompute[0].model_copy(
        update={"recomputed": [], "offloaded": {"x": 1.0, "core_attention": 1.0, "up": 0.25}}
    )
    recipes.of(stage.model_copy(update={"recompute": [entry]}))
    ((_, recipe),) = recipes.legend
    assert recipe == f"{entry.block} has its input, core_attention, 25% of up in host memory"
