"""Contingencies: every failure covered, every throughput that of a plan, every set looked up."""

from __future__ import annotations

import itertools
import time
from functools import cache
from statistics import median
from typing import Any

import pytest

from solver import planner
from solver.capacity.sizes import at_size
from solver.contingencies.cells import Cells, cells_of
from solver.contingencies.contingencies import check, contingencies, freed
from solver.contingencies.documents import (
    ActionKind,
    ContingencyAnswer,
    ContingencyRequest,
    Reduced,
)
from solver.contingencies.failures import failures
from solver.contingencies.lookup import Lookup
from solver.contingencies.running import decided, shared_micro_batches
from solver.contingencies.ways import on_nodes
from solver.errors import BadRequest
from solver.layouts import Layout
from solver.plan import LayoutAnswer
from solver.request import PlanRequest
from solver.transitions.documents import TransitionRequest
from solver.transitions.transition import situation, transition
from tests.pace import pace

JOB: dict[str, Any] = {
    "model": {"name": "llama-3.2-1b"},
    "cluster": {"device": "RTX4090", "nodes": 6, "devices_per_node": 2},
    "training": {"sequence_length": 2048, "global_batch_size": 33},
    "layout": {
        "tensor_parallel": 2,
        "pipeline_parallel": 2,
        "data_parallel": 3,
        "micro_batch_size": 1,
    },
}
NODES: list[dict[str, str]] = [
    {"name": name, "leaf": "xy"[i // 3]} for i, name in enumerate("abcdef")
]


def asked(**fields: Any) -> ContingencyRequest:
    return ContingencyRequest.model_validate(
        {"job": JOB, "nodes": NODES, "spares": ["s"], "relative_gap": 1e-4, **fields}
    )


@cache
def answered() -> ContingencyAnswer:
    return contingencies(asked(), processes=1)


def plans(kind: ActionKind) -> list[Reduced]:
    found = [plan for plan in answered().plans if plan.action is kind]
    assert found
    return found


def test_every_single_and_double_failure_is_covered_by_itself() -> None:
    lookup = Lookup.of(answered())
    for count in (1, 2):
        for failed in itertools.combinations("abcdef", count):
            covered = lookup.covered(failed)
            assert covered.by_itself
            assert covered.actions
            for action in covered.actions:
                assert not set(action.nodes) & set(failed)
                assert len(set(action.nodes)) == len(action.nodes) == action.plan.uses_nodes
                assert action.transition_seconds >= answered().restart_seconds


def test_every_node_count_down_to_the_smallest_feasible_is_covered() -> None:
    smallest = answered().smallest_feasible
    assert smallest is not None
    assert [template.nodes for template in answered().templates] == [5, 4, 3, 2, 1]
    for template in answered().templates:
        assert (template.plan is not None) == (template.nodes >= smallest)
    rates = [
        answered().plans[template.plan].samples_per_second
        for template in answered().templates
        if template.plan is not None
    ]
    assert rates == sorted(rates, reverse=True)


def test_a_smaller_plan_is_what_planning_those_nodes_gives() -> None:
    job = freed(decided(PlanRequest.model_validate(JOB)))
    for plan in plans(ActionKind.REPARTITION)[-1:]:
        fresh = planner.plan(at_size(job, plan.uses_nodes))
        assert plan.iteration_seconds == pytest.approx(fresh.iteration_seconds, rel=2e-4)
        assert plan.plan_id == fresh.id


def test_dropping_replicas_is_what_planning_their_larger_share_gives() -> None:
    for plan in plans(ActionKind.DROP_REPLICA):
        assert plan.layout is not None
        left = plan.layout.data_parallel
        assert sum(plan.micro_batches) == 33
        assert max(plan.micro_batches) - min(plan.micro_batches) <= 1
        request = {
            **JOB,
            "cluster": {**JOB["cluster"], "nodes": 2 * left},
            "training": {**JOB["training"], "global_batch_size": max(plan.micro_batches) * left},
            "layout": plan.layout.model_dump(),
        }
        fresh = planner.plan(PlanRequest.model_validate(request))
        assert plan.iteration_seconds == pytest.approx(fresh.iteration_seconds, rel=2e-4)


def test_a_spare_keeps_the_speed_and_takes_the_failed_rank() -> None:
    covered = Lookup.of(answered()).covered(["c"])
    assert covered.actions[0].plan.action is ActionKind.KEEP_WITH_SPARE
    assert covered.actions[0].plan.throughput == pytest.approx(1.0)
    assert covered.actions[0].nodes == list("absdef")
    without = Lookup.of(answered()).covered(["c", "s"])
    kinds = [action.plan.action for action in without.actions]
    assert ActionKind.KEEP_WITH_SPARE not in kinds


def test_rerouting_is_slower_than_the_running_plan_and_within_its_bound() -> None:
    for plan in plans(ActionKind.REROUTE):
        assert plan.throughput < 1
        assert plan.lower_bound_seconds <= plan.iteration_seconds
        assert plan.memory_headroom_bytes >= 0


def test_larger_failures_are_answered_by_what_is_left() -> None:
    covered = Lookup.of(answered()).covered(["a", "b", "d"])
    assert not covered.by_itself
    kinds = {action.plan.action for action in covered.actions}
    assert ActionKind.DROP_REPLICA in kinds  # replicas 0 and 1 are touched, replica 2 is whole
    whole = Lookup.of(answered()).covered(["a", "b", "c"])  # stage 0, a class of its own
    assert whole.by_itself
    assert whole.title in ("all of stage 0", "a whole leaf")
    assert ActionKind.DROP_REPLICA not in {action.plan.action for action in whole.actions}


def test_a_failed_node_set_is_read_in_milliseconds() -> None:
    lookup = Lookup.of(answered())
    seconds = []
    for failed in itertools.combinations("abcdef", 2):
        started = time.process_time()
        lookup.covered(failed)
        seconds.append(time.process_time() - started)
    assert median(seconds) < 0.01 * pace()


def test_every_node_set_is_told_its_own_way_where_that_is_asked_for() -> None:
    found = contingencies(asked(each_node_set=True), processes=1)
    lookup = Lookup.of(found)
    facts = situation(found_job := decided(PlanRequest.model_validate(JOB)))
    differ = 0
    for failed in itertools.combinations("abcdef", 2):
        example = Lookup.of(answered()).covered(failed)
        for action, usual in zip(lookup.covered(failed).actions, example.actions, strict=True):
            assert action.nodes == usual.nodes
            differ += action.moved_bytes != usual.moved_bytes
            if action.plan.action is not ActionKind.DROP_REPLICA:
                continue
            assert action.plan.layout is not None
            layout = LayoutAnswer.model_validate(decided(found_job).layout.model_dump())
            request = TransitionRequest(
                job=found_job,
                before=on_nodes(layout, answered().plans[0].stages, "abcdef"),
                after=on_nodes(action.plan.layout, action.plan.stages, action.nodes),
                lost=list(failed),
            )
            told = transition(request, facts, in_order=True)
            assert action.moved_bytes == pytest.approx(told.moved_bytes)
            assert action.transition_seconds == pytest.approx(told.seconds)
    assert differ


def test_acting_pays_from_the_break_even_on() -> None:
    """Work done by the end of an outage, counted in seconds of the running plan."""
    found = answered()
    for failure in found.classes:
        for course in failure.courses:
            plan = found.plans[course.plan]
            if plan.action is ActionKind.KEEP_WITH_SPARE:
                continue
            for outage, better in ((1.01, True), (0.99, False)):
                lasts = outage * course.break_even_seconds
                acting = plan.throughput * max(lasts - course.transition_seconds, 0.0)
                acting -= course.way_back_seconds + course.lost_work_seconds
                waiting = -failure.waiting_seconds - course.lost_work_seconds
                assert (acting > waiting) is better or course.way_back_seconds <= (
                    failure.waiting_seconds
                )


CELLS = cells_of(
    Layout(8, 8, 1, 1, 4, 1, 1, True, 1, "1f1b"),  # tensor, pipeline, context, expert, data
    8,
)


def test_classes_of_32_nodes_stand_for_every_single_and_double_failure() -> None:
    found = failures(CELLS, [None] * 32, 2)
    small = [failure for failure in found if len(failure.failed) <= 2]
    assert len(small) == 8 + 8 + 2 * 28
    assert sum(failure.node_sets for failure in small) == 32 + 32 * 31 // 2
    keys = {CELLS.key(failure.failed) for failure in small}
    for pair in itertools.combinations(range(32), 2):
        assert CELLS.key(pair) in keys


def test_rows_that_change_places_carry_a_class_onto_any_of_its_sets() -> None:
    examples = {CELLS.key(found.failed): found.failed for found in failures(CELLS, [None] * 32, 2)}
    for other in list(itertools.combinations(range(32), 2))[::7]:
        example = examples[CELLS.key(other)]
        onto = CELLS.onto(example, other)
        assert sorted(onto) == sorted(onto.values()) == list(range(32))
        assert {onto[node] for node in example} == set(other)
        assert all(CELLS.stages[a] == CELLS.stages[b] for a, b in onto.items())


def test_nodes_that_straddle_replicas_are_classes_of_their_own() -> None:
    straddling = Cells(stages=((0,), (0,), (0,)), replicas=((0, 1), (1, 2), (2, 3)))
    assert len(failures(straddling, [None] * 3, 1)) >= 3


def test_whole_numbers_of_micro_batches_are_as_even_as_can_be() -> None:
    assert shared_micro_batches(10, 4) == [3, 3, 2, 2]
    assert shared_micro_batches(8, 4) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"nodes": NODES[:5]}, "nodes"),
        ({"nodes": [*NODES[:5], NODES[0]]}, "nodes[5].name"),
        ({"spares": ["s", NODES[2]["name"]]}, "spares[1]"),
        ({"job": {**JOB, "layout": {"tensor_parallel": 2}}}, "job.layout.pipeline_parallel"),
        ({"job": {**JOB, "layout": {**JOB["layout"], "data_parallel": 5}}},
         "job.layout.data_parallel"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_before_it_is_a_job(
    fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadRequest) as raised:
        check(asked(**fields))
    assert raised.value.field == field
    assert raised.value.hint


def test_stages_that_are_not_the_models_are_refused() -> None:
    with pytest.raises(BadRequest) as raised:
        contingencies(asked(stages=[1, 2]))
    assert raised.value.field == "stages"


def test_a_plan_that_does_not_fit_has_no_failures_to_look_up() -> None:
    tight = {**JOB, "cluster": {**JOB["cluster"], "memory_bytes": 1e8}}
    answer = contingencies(asked(job=tight), processes=1)
    assert answer.status == "infeasible"
    with pytest.raises(BadRequest, match="does not fit its devices") as raised:
        Lookup.of(answer).covered(["a"])
    assert raised.value.hint


def test_a_node_that_is_not_the_plans_is_refused() -> None:
    with pytest.raises(BadRequest) as raised:
        Lookup.of(answered()).covered(["z"])
    assert raised.value.field == "failed"
