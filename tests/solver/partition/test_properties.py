"""What must hold for every pipeline: of memory, of units, of names, of cutoffs."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.costs.pipeline import Block, PipelineCosts
from solver.partition.menu import Mix
from solver.partition.outcome import Dominated, Infeasible, Partition
from solver.partition.problem import partition_problem
from solver.partition.shared import SharedProblem
from solver.partition.solve import PartitionProblem
from solver.schedules import StageTimes, make_schedule, schedule_graph, simulate
from tests.solver.partition.samples import free_menu, pipeline, solved
from tests.solver.random_costs import random_costs

seeds = st.integers(0, 100_000)
examples = settings(max_examples=40, deadline=None)


def makespan(costs: PipelineCosts, seed: int) -> float:
    _, schedule = pipeline(seed)
    found = solved(costs, schedule)
    return math.inf if found is None else found.makespan


@given(seed=seeds, more=st.floats(1.0, 3.0))
@examples
def test_more_memory_is_never_slower(seed: int, more: float) -> None:
    costs, _ = pipeline(seed)
    roomier = replace(costs, capacity_bytes=costs.capacity_bytes * more)
    assert makespan(roomier, seed) <= makespan(costs, seed) * (1 + 1e-9)


@given(seed=seeds, more=st.floats(0.0, 5.0))
@examples
def test_slower_sends_are_never_faster(seed: int, more: float) -> None:
    costs, _ = pipeline(seed)
    slower = replace(costs, send_seconds=costs.send_seconds + more)
    assert makespan(slower, seed) >= makespan(costs, seed) * (1 - 1e-9)


@given(seed=seeds, unit=st.sampled_from([1e-6, 1e-3, 7.0, 1e4]))
@examples
def test_the_unit_of_time_scales_the_makespan(seed: int, unit: float) -> None:
    costs, _ = pipeline(seed)
    scaled = replace(
        costs,
        blocks=tuple(_in_units_of(block, unit) for block in costs.blocks),
        send_seconds=costs.send_seconds * unit,
    )
    assert makespan(scaled, seed) == pytest.approx(makespan(costs, seed) * unit, rel=1e-8)


def _in_units_of(block: Block, unit: float) -> Block:
    ops = tuple(
        replace(
            op,
            forward_seconds=op.forward_seconds * unit,
            backward_seconds=op.backward_seconds * unit,
        )
        for op in block.ops
    )
    return replace(block, ops=ops)


@given(seed=seeds, unit=st.sampled_from([1e-3, 1e6, 2.0**30]))
@examples
def test_the_unit_of_memory_changes_nothing(seed: int, unit: float) -> None:
    costs, _ = pipeline(seed)
    scaled = replace(
        costs,
        blocks=tuple(
            replace(
                block,
                ops=tuple(replace(op, output_bytes=op.output_bytes * unit) for op in block.ops),
                input_bytes=block.input_bytes * unit,
                states=replace(block.states, weights=block.states.weights * unit),
            )
            for block in costs.blocks
        ),
        capacity_bytes=costs.capacity_bytes * unit,
    )
    assert makespan(scaled, seed) == pytest.approx(makespan(costs, seed), rel=1e-8)


@given(seed=seeds)
@examples
def test_the_names_and_order_of_block_kinds_change_nothing(seed: int) -> None:
    costs, _ = pipeline(seed)
    order = list(range(len(costs.blocks)))
    random.Random(seed).shuffle(order)
    renamed = replace(
        costs,
        blocks=tuple(replace(costs.blocks[kind], name=f"renamed{kind}") for kind in order),
        sequence=tuple(order.index(kind) for kind in costs.sequence),
    )
    assert makespan(renamed, seed) == pytest.approx(makespan(costs, seed), rel=1e-9)


@given(seed=seeds)
@examples
def test_a_block_split_in_two_kinds_that_are_alike_changes_nothing(seed: int) -> None:
    costs, _ = pipeline(seed)
    twin = replace(costs.blocks[0], name="twin")
    kinds = len(costs.blocks)
    first = costs.sequence.index(0) if 0 in costs.sequence else 0
    sequence = tuple(
        kinds if kind == 0 and position > first else kind
        for position, kind in enumerate(costs.sequence)
    )
    split = replace(costs, blocks=(*costs.blocks, twin), sequence=sequence)
    assert makespan(split, seed) == pytest.approx(makespan(costs, seed), rel=1e-9)


@given(seed=seeds, seconds=st.floats(0.0, 10.0))
@examples
def test_a_constant_per_iteration_is_added(seed: int, seconds: float) -> None:
    costs, _ = pipeline(seed)
    longer = replace(costs, fixed_seconds=seconds)
    assert makespan(longer, seed) == pytest.approx(makespan(costs, seed) + seconds, rel=1e-9)


@given(seed=seeds)
@examples
def test_the_bound_before_solving_holds(seed: int) -> None:
    costs, schedule = pipeline(seed)
    bound = PartitionProblem(costs, free_menu(costs), schedule).bound
    assert bound <= makespan(costs, seed) * (1 + 1e-9)


@given(seed=seeds, part=st.floats(0.3, 2.0))
@examples
def test_a_cutoff_gives_up_only_where_nothing_beats_it(seed: int, part: float) -> None:
    costs, schedule = pipeline(seed)
    best = makespan(costs, seed)
    if math.isinf(best):
        return
    cutoff = best * part
    found = PartitionProblem(costs, free_menu(costs), schedule).solve(cutoff=cutoff)
    assert not isinstance(found, Infeasible)
    if isinstance(found, Dominated):
        assert best >= cutoff * (1 - 1e-9)
        assert cutoff * (1 - 1e-9) <= found.lower_bound
    else:
        assert found.makespan == pytest.approx(best, rel=1e-9)
    if part < 1 - 1e-6:
        assert isinstance(found, Dominated)
    if part > 1 + 1e-6:
        assert isinstance(found, Partition)


@given(seed=seeds)
@examples
def test_the_lower_bound_of_a_given_up_layout_holds(seed: int) -> None:
    costs, schedule = pipeline(seed)
    best = makespan(costs, seed)
    if math.isinf(best):
        return
    found = PartitionProblem(costs, free_menu(costs), schedule).solve(cutoff=best * 0.9)
    assert isinstance(found, Dominated)
    assert found.lower_bound <= best * (1 + 1e-9)


@given(seed=seeds)
@examples
def test_the_same_problem_has_the_same_answer(seed: int) -> None:
    costs, schedule = pipeline(seed)
    assert solved(costs, schedule) == solved(costs, schedule)


@given(seed=seeds)
@examples
def test_cuts_cover_the_sequence_and_mixes_its_blocks(seed: int) -> None:
    costs, schedule = pipeline(seed)
    found = solved(costs, schedule)
    if found is None:
        return
    assert len(found.cuts) == len(found.mixes) == schedule.stages
    edges = [found.cuts[0][0], *(stop for _, stop in found.cuts)]
    assert [start for start, _ in found.cuts] == edges[:-1]
    assert (edges[0], edges[-1]) == (0, len(costs.sequence))
    for (start, stop), mix in zip(found.cuts, found.mixes, strict=True):
        assert stop > start
        assert decided(mix) == {
            kind: costs.sequence[start:stop].count(kind) for kind in costs.sequence[start:stop]
        }


def decided(mix: Mix) -> dict[int, int]:
    kinds = {kind for kind, _, _ in mix.parts}
    return {kind: sum(count for k, _, count in mix.parts if k == kind) for kind in kinds}


@given(seed=seeds)
@examples
def test_the_makespan_is_that_of_the_cuts_and_their_recompute(seed: int) -> None:
    costs, schedule = pipeline(seed)
    found = solved(costs, schedule)
    if found is None:
        return
    forward, backward = [], []
    for (start, stop), mix in zip(found.cuts, found.mixes, strict=True):
        blocks = [costs.blocks[kind] for kind in costs.sequence[start:stop]]
        forward.append(sum(block.forward_seconds for block in blocks))
        backward.append(sum(block.backward_seconds for block in blocks) + mix.seconds)
    times = StageTimes.of(forward, backward, costs.send_seconds)
    simulated = simulate(schedule_graph(schedule), times).makespan[0]
    assert found.makespan == pytest.approx(simulated, rel=1e-12)


def test_no_time_to_solve_still_gives_a_bound_that_holds() -> None:
    for seed in range(40):
        costs, schedule = pipeline(seed)
        problem = PartitionProblem(costs, free_menu(costs), schedule)
        found = problem.solve(time_limit_seconds=0.0)
        if isinstance(found, Partition):
            best = makespan(costs, seed)
            assert found.lower_bound <= best * (1 + 1e-9)
            assert found.makespan >= best * (1 - 1e-9)


def zero_bubble(costs: PipelineCosts, stages: int) -> float:
    """The optimum under ZB-H1; infinite if nothing fits."""
    found = solved(costs, make_schedule("zb-h1", stages, costs.micro_batches))
    return math.inf if found is None else found.makespan


@st.composite
def late_pipelines(draw: st.DrawFn) -> tuple[PipelineCosts, int]:
    """Costs whose backwards may be split, and a number of stages."""
    stages = draw(st.integers(1, 4))
    return random_costs(draw(seeds), stages, late_weights=True), stages


few = settings(max_examples=25, deadline=None)


@given(pipeline=late_pipelines(), more=st.floats(1.0, 3.0))
@few
def test_more_memory_is_never_slower_with_late_gradients(
    pipeline: tuple[PipelineCosts, int], more: float
) -> None:
    costs, stages = pipeline
    roomier = replace(costs, capacity_bytes=costs.capacity_bytes * more)
    assert zero_bubble(roomier, stages) <= zero_bubble(costs, stages) * (1 + 1e-9)


def _all_in_units_of(block: Block, unit: float) -> Block:
    whole = _in_units_of(block, unit)
    ops = (replace(op, weight_seconds=op.weight_seconds * unit) for op in whole.ops)
    return replace(whole, ops=tuple(ops))


@given(pipeline=late_pipelines(), unit=st.sampled_from([1e-3, 7.0, 1e4]))
@few
def test_the_unit_of_time_scales_the_makespan_with_late_gradients(
    pipeline: tuple[PipelineCosts, int], unit: float
) -> None:
    costs, stages = pipeline

    other = replace(
        costs,
        blocks=tuple(_all_in_units_of(block, unit) for block in costs.blocks),
        send_seconds=costs.send_seconds * unit,
    )
    assert zero_bubble(other, stages) == pytest.approx(zero_bubble(costs, stages) * unit, rel=1e-8)


@given(pipeline=late_pipelines(), name=st.sampled_from(["1f1b", "gpipe", "zb-h1"]))
@few
def test_a_finer_granularity_is_never_slower(
    pipeline: tuple[PipelineCosts, int], name: str
) -> None:
    """Where stages may only hold even numbers of blocks there are fewer cuts."""
    costs, stages = pipeline
    if len(costs.sequence) % 2 or len(costs.sequence) < 2 * stages:
        return
    schedule = make_schedule(name, stages, costs.micro_batches)
    coarse = PartitionProblem(
        costs, free_menu(costs), schedule, lambda counts: counts.sum(axis=1) % 2 == 0
    ).solve()
    if isinstance(coarse, Partition):
        fine = solved(costs, schedule)
        assert fine is not None
        assert fine.makespan <= coarse.makespan * (1 + 1e-9)


SHARED = (("1f1b", 2, 2), ("zb-v", 2, 2), ("chimera", 2, 1))
"""Schedules whose stages share devices: name, devices, chunks."""


def shared_makespan(costs: PipelineCosts, kind: tuple[str, int, int]) -> float:
    """The optimum under a schedule whose stages share devices; infinite if nothing fits."""
    name, devices, chunks = kind
    schedule = make_schedule(name, devices, costs.micro_batches, chunks)
    found = partition_problem(costs, free_menu(costs), schedule).solve()
    return found.makespan if isinstance(found, Partition) else math.inf


def shared_costs(seed: int, kind: tuple[str, int, int]) -> PipelineCosts:
    """Costs of a pipeline that the program decides as a whole."""
    _, devices, chunks = kind
    stages = devices * chunks
    return random_costs(
        seed, stages, most_blocks=stages + 1, most_ops=2, micro_batches=4, late_weights=True
    )


shared = settings(max_examples=8, deadline=None)


@given(seed=seeds, kind=st.sampled_from(SHARED), more=st.floats(1.0, 3.0))
@shared
def test_more_memory_and_shorter_sends_are_never_slower_where_stages_share_devices(
    seed: int, kind: tuple[str, int, int], more: float
) -> None:
    costs = shared_costs(seed, kind)
    known = shared_makespan(costs, kind)
    roomier = replace(costs, capacity_bytes=costs.capacity_bytes * more)
    assert shared_makespan(roomier, kind) <= known * (1 + 1e-6)
    slower = replace(costs, send_seconds=costs.send_seconds + more)
    assert shared_makespan(slower, kind) >= known * (1 - 1e-6)


@given(seed=seeds, kind=st.sampled_from(SHARED), unit=st.sampled_from([1e-3, 7.0, 1e4]))
@shared
def test_units_and_names_change_nothing_where_stages_share_devices(
    seed: int, kind: tuple[str, int, int], unit: float
) -> None:
    costs = shared_costs(seed, kind)
    known = shared_makespan(costs, kind)
    in_units = replace(
        costs,
        blocks=tuple(_all_in_units_of(block, unit) for block in costs.blocks),
        send_seconds=costs.send_seconds * unit,
    )
    assert shared_makespan(in_units, kind) == pytest.approx(known * unit, rel=1e-6)
    last = len(costs.blocks) - 1
    renamed = replace(
        costs,
        blocks=tuple(replace(block, name=f"other {block.name}") for block in costs.blocks[::-1]),
        sequence=tuple(last - number for number in costs.sequence),
    )
    assert shared_makespan(renamed, kind) == pytest.approx(known, rel=1e-6)


@given(seed=seeds, kind=st.sampled_from(SHARED))
@shared
def test_a_finer_granularity_is_never_slower_where_stages_share_devices(
    seed: int, kind: tuple[str, int, int]
) -> None:
    """Where the two halves of every block stand on one stage there are fewer cuts."""
    whole = shared_costs(seed, kind)
    halves = replace(whole, sequence=tuple(k for k in whole.sequence for _ in range(2)))
    name, devices, chunks = kind
    schedule = make_schedule(name, devices, halves.micro_batches, chunks)
    coarse = SharedProblem(
        halves, free_menu(halves), schedule, lambda counts: counts.sum(axis=1) % 2 == 0
    ).solve()
    fine = SharedProblem(halves, free_menu(halves), schedule).solve()
    if isinstance(coarse, Partition):
        assert isinstance(fine, Partition)
        assert fine.lower_bound <= coarse.makespan * (1 + 1e-6)
        assert fine.makespan <= coarse.makespan * (1 + 1e-6)
