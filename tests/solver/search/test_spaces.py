"""Whole spaces of layouts against solving every layout in them, without any pruning."""

from __future__ import annotations

import math
import random
from functools import cache
from itertools import groupby
from typing import Any

import pytest

from solver.layouts import Layout
from solver.layouts.choices import ANY, Value, values_of
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import partition_problem
from solver.planner import found_by
from solver.question import Question, question
from solver.request import PlanRequest
from solver.schedules import make_schedule
from solver.search import heads
from solver.search.bound import quick_bound
from solver.search.choice_costs import choice_costs
from solver.search.envelope import Variant, envelope, enveloped, halves, leaders
from solver.search.family_bounds import FamilyBounds
from solver.search.members import Members
from solver.search.outcome import Outcome
from solver.search.search import one_regime, search
from solver.search.totals import Totals
from solver.search.variants import gain, no_better

DENSE: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "num_hidden_layers": 4,
    "vocab_size": 8192,
}
EXPERTS: dict[str, Any] = {
    **DENSE,
    "model_type": "mixtral",
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}


def small_space(seed: int) -> PlanRequest:
    """A few values for some of the dimensions, on 4 to 8 devices with more or less memory."""
    chance = random.Random(seed)
    experts = chance.random() < 0.3
    layout: dict[str, Any] = {
        "tensor_parallel": chance.choice([1, [1, 2], 2]),
        "context_parallel": chance.choice([1, 1, [1, 2]]),
        "virtual_stages": 1,
        "micro_batch_size": chance.choice([1, 1, [1, 2]]),
        "zero_stage": chance.choice([1, [0, 1], [1, 3]]),
        "schedule": chance.choice(["1f1b", ["1f1b", "gpipe"]]),
        "sharding_group": chance.choice([None, None, [1, 2, 4, 8]]),
        "rank_order": chance.choice([None, "tp-cp-ep-dp-pp", "tp-cp-ep-dp-pp"]),
        "pipeline_parallel": chance.choice([1, [1, 2], [2, 4]]),
    }
    if seed % 10 == 0:
        layout |= {"virtual_stages": [1, 2], "pipeline_parallel": [1, 2], "zero_stage": 1}
        layout |= {"schedule": "1f1b", "context_parallel": 1, "tensor_parallel": 2}
    if experts:
        layout["expert_parallel"] = chance.choice([1, [1, 2]])
    gigabytes = chance.choice([0.5, 0.7, 0.9, 1.2, 1.6, 24.0])
    cluster: dict[str, Any] = {
        "device": "A100-SXM4-80GB",
        "nodes": chance.choice([1, 2]),
        "devices_per_node": 4,
        "memory_bytes": gigabytes * 1e9 + 3e9,
    }
    if seed % 5 == 3:  # nodes, leafs and spines to cross
        cluster |= {"device": "A100-PCIe-80GB", "nodes": 8, "devices_per_node": 1}
        cluster |= {"switches": [{"nodes": 2, "oversubscription": 2}]}
        cluster["switches"] += [{"nodes": 4, "oversubscription": 4}]
    return PlanRequest.model_validate(
        {
            "model": {"huggingface": EXPERTS if experts else DENSE},
            "cluster": cluster,
            "training": {
                "sequence_length": 2048,
                "global_batch_size": chance.choice([8, 16, 24]),
                "overlap_expert_parallel": experts and seed % 2 == 0,
            },
            "layout": layout,
        }
    )


SPACES = range(50)


@cache
def everything(seed: int) -> tuple[Question, dict[Layout, tuple[float, float]]]:
    """The question, and of every layout its best time (infinite if none fits) and its bound."""
    asked = question(small_space(seed), to_plan=True)
    found = {}
    for family in asked.families:
        for position in range(len(family)):
            for layout in family.variants(position):
                found[layout] = solved(asked, layout)
    return asked, found


def solved(asked: Question, layout: Layout) -> tuple[float, float]:
    costs = asked.costs(layout)
    schedule = make_schedule(
        layout.schedule, layout.pipeline_parallel, costs.micro_batches, layout.virtual_stages
    )
    problem = partition_problem(costs, policy_menu(costs, asked.request.recompute), schedule)
    result = problem.solve(relative_gap=0.0, time_limit_seconds=60.0)
    if isinstance(result, Infeasible):
        return math.inf, math.inf
    assert isinstance(result, Partition)
    return result.makespan, result.lower_bound


def searched(asked: Question, gap: float = 0.0) -> Outcome:
    return search(
        asked.families,
        asked.costs,
        one_regime(lambda costs: policy_menu(costs, asked.request.recompute)),
        relative_gap=gap,
        time_limit_seconds=60.0,
        rough=asked.rough,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", SPACES)
def test_the_search_finds_what_solving_everything_finds(seed: int) -> None:
    asked, all_layouts = everything(seed)
    outcome = searched(asked)
    best = min(time for time, _ in all_layouts.values())
    assert outcome.considered == len(all_layouts)
    assert outcome.unfinished == 0
    counted = outcome.pruned + outcome.infeasible
    if math.isinf(best):
        assert outcome.found is None
        assert outcome.infeasible == outcome.considered
        return
    assert outcome.found is not None
    assert outcome.found.partition.makespan == pytest.approx(best, rel=1e-9)
    assert outcome.lower_bound <= best * (1 + 1e-9)
    lowest = min(bound for _, bound in all_layouts.values())
    assert outcome.lower_bound >= lowest * (1 - 1e-9)
    assert counted < outcome.considered <= counted + outcome.solved
    assert_no_choice_costs_less(outcome, all_layouts)


def assert_no_choice_costs_less(
    outcome: Outcome, all_layouts: dict[Layout, tuple[float, float]]
) -> None:
    """Every value that a fitting layout has is told, with a bound that no such layout is below."""
    best: dict[tuple[str, Value | None], float] = {}
    for layout, (time, _) in all_layouts.items():
        for key in values_of(layout) if math.isfinite(time) else ():
            best[key] = min(time, best.get(key, math.inf))
    for (name, value), time in best.items():
        assert outcome.least[name][value] <= time * (1 + 1e-9)
    assert outcome.found is not None
    seconds = outcome.found.partition.makespan
    for choice in choice_costs(outcome, outcome.found.layout, seconds):
        least = min(best.get((choice.field, value), math.inf) for value in (choice.value, ANY))
        assert choice.lower_bound_seconds <= least * (1 + 1e-9)
        assert choice.iteration_seconds is None or choice.iteration_seconds >= least * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SPACES)
def test_no_bound_of_a_family_exceeds_what_a_member_comes_to(seed: int) -> None:
    asked, all_layouts = everything(seed)
    for family in asked.families:
        costs = asked.costs(family.exemplar)
        bounds = FamilyBounds(Members.of(family), Totals.of(costs), inputs_kept=True)
        menu = policy_menu(costs, asked.request.recompute)
        bounds.add_recompute(menu.frontiers.__getitem__)  # type: ignore[attr-defined]
        assert asked.rough is not None
        totals = asked.rough.of(family)
        assert totals is not None
        rough = FamilyBounds(Members.of(family), totals, inputs_kept=True)
        assert (rough.bubble <= bounds.bubble * (1 + 1e-9)).all()
        assert (rough.fits | ~bounds.fits).all()
        for position in range(len(family)):
            for layout in family.variants(position):
                time, _ = all_layouts[layout]
                assert bounds.work[position] <= time * (1 + 1e-9)
                assert bounds.bubble[position] <= time * (1 + 1e-9)
                assert bounds.fits[position] or math.isinf(time)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SPACES)
def test_no_variant_surpasses_the_first_by_more_than_its_gain(seed: int) -> None:
    asked, all_layouts = everything(seed)
    best = min(time for time, _ in all_layouts.values())
    for family in asked.families:
        for position in range(len(family)):
            by_order = groupby(family.variants(position), key=lambda one: one.rank_order)
            first, *others = (layout for _, order in by_order for layout in order)
            costs, (time, _) = asked.costs(first), all_layouts[first]
            for other in others:
                there, (faster, _) = asked.costs(other), all_layouts[other]
                if no_better(there, costs):
                    assert faster >= time * (1 - 1e-9)
                if other.rank_order != first.rank_order or first.virtual_stages > 1:
                    continue
                for longest, least in ((math.inf, time), (best * 1.5, min(time, best * 1.5))):
                    assert faster >= (least - gain(costs, there, longest=longest)) * (1 - 1e-9)
                    assert faster >= (least - gain(costs, longest=longest)) * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SPACES)
def test_bounding_variants_at_once_changes_no_answer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "WORTH", -math.inf)
    test_the_search_finds_what_solving_everything_finds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SPACES)
def test_no_envelope_exceeds_what_one_of_its_variants_comes_to(seed: int) -> None:
    asked, all_layouts = everything(seed)
    for variants in together(asked):
        costs, layout = envelope(variants), variants[0].layout
        if layout.virtual_stages > 1:
            continue
        every = [one.layout for one in variants]
        every += [layout for one in variants for _, layout in one.followers]
        least = min(all_layouts[layout][0] for layout in every)
        schedule = make_schedule(layout.schedule, layout.pipeline_parallel, costs.micro_batches)
        menu = policy_menu(costs, asked.request.recompute)
        problem = partition_problem(costs, menu, schedule)
        assert quick_bound(costs, layout.pipeline_parallel) <= least * (1 + 1e-9)
        assert problem.bound <= least * (1 + 1e-9)
        result = problem.solve(relative_gap=0.0, time_limit_seconds=60.0)
        if isinstance(result, Partition):
            assert result.lower_bound <= least * (1 + 1e-9)
        else:
            assert math.isinf(least)


def test_an_envelope_is_shorter_than_each_of_its_variants() -> None:
    compared = 0
    for variants in together(question(small_space(4), to_plan=True)):
        costs = envelope(variants)
        for name in ("gather_seconds", "gradient_seconds", "optimizer_seconds"):
            for block, *every in zip(
                costs.blocks, *(one.costs.blocks for one in variants), strict=True
            ):
                assert getattr(block, name) == min(getattr(one, name) for one in every)
        compared += all(one.costs.blocks != costs.blocks for one in variants)
    assert compared


def together(asked: Question) -> list[tuple[Variant, ...]]:
    """All variants that are bounded at once: of every member, and their halves."""
    found = []
    for family in asked.families:
        for position in range(len(family)):
            numbered = enumerate(family.variants(position))
            for _, of_order in groupby(numbered, key=lambda one: one[1].rank_order):
                every = leaders([Variant(at, one, asked.costs(one)) for at, one in of_order])
                waiting = [every] if len(every) > 1 and enveloped(every) else []
                while waiting:
                    variants = waiting.pop()
                    found.append(tuple(variants))
                    waiting += [list(half) for half in halves(variants) if len(half) > 1]
    return found


@pytest.mark.slow
def test_a_space_on_tens_of_thousands_of_devices_is_proved_by_solving_few_layouts() -> None:
    request = PlanRequest.model_validate(
        {
            "model": {"name": "llama-3.1-70b"},
            "cluster": {"device": "H100-SXM5-80GB", "nodes": 4096, "devices_per_node": 8},
            "training": {"sequence_length": 8192, "global_batch_size": 2048},
            "solver": {"relative_gap": 1e-3, "time_limit_seconds": 60},
        }
    )
    outcome = found_by(request)
    assert outcome.found is not None
    assert outcome.unfinished == 0
    assert outcome.lower_bound >= outcome.found.partition.makespan * (1 - 1e-3) * (1 - 1e-9)
    assert outcome.considered > 100_000
    assert outcome.solved <= 10


@pytest.mark.parametrize("seed", SPACES)
def test_what_needs_no_more_devices_can_be_left_out_and_nothing_else_is(seed: int) -> None:
    request = small_space(seed)

    def named(beyond: int) -> set[Layout]:
        asked = question(request, to_plan=True, beyond_devices=beyond)
        members = ((family, at) for family in asked.families for at in range(len(family)))
        return {layout for family, at in members for layout in family.variants(at)}

    whole = named(0)
    for beyond in sorted({layout.devices for layout in whole}):
        assert named(beyond) == {layout for layout in whole if layout.devices > beyond}


@pytest.mark.parametrize("seed", SPACES)
def test_every_layout_of_a_space_is_legal_and_named_once(seed: int) -> None:
    request = small_space(seed)
    asked = question(request, to_plan=True)
    seen = set()
    for family in asked.families:
        counts = family.counts()
        for position in range(len(family)):
            variants = family.variants(position)
            assert counts[position] == len(variants)
            for layout in variants:
                assert layout not in seen
                seen.add(layout)
                assert layout.devices <= 8
                for name in type(request.layout).model_fields:
                    values = request.layout.values(name)
                    if values is not None and name != "sharding_group":
                        assert getattr(layout, name) in values
    assert seen
