"""What is done next about a layout: divided into regimes, bounded more tightly, solved."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from heapq import heappush

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.partition.menu import Menu
from solver.partition.outcome import EXACT, Infeasible, Partition
from solver.partition.problem import Problem, menu_on, partition_problem
from solver.partition.regime import Regime
from solver.partition.shared import SharedProblem
from solver.partition.solve import PartitionProblem
from solver.schedules import Schedule, make_schedule, recomputing_ahead
from solver.search.bound import least_work
from solver.search.entries import End, Open
from solver.search.heads import halve
from solver.search.outcome import Found, Loser, Stage
from solver.search.state import State

TURN_NODES = 1000
"""Of search trees, what one layout gets before all others have had their turn."""

TURN = 0.5
"""Of the time that is left, the same where stages share devices and other counts limit the work."""


def step(state: State, layout: Open) -> None:
    """The layout of least bound gets its next bound, or is solved."""
    if layout.regime is None:
        _divide(state, layout)
    elif layout.problem is None:
        _bound(state, layout, layout.regime)
    elif layout.head.together:
        halve(state, layout)
    else:
        solve(state, layout, layout.problem, layout.menu, layout.regime)


def _divide(state: State, layout: Open) -> None:
    for entry in divided(state, layout):
        heappush(state.open, entry)


def divided(state: State, layout: Open) -> list[Open]:
    """One entry for every regime, each with what it recomputes at least in its bound."""
    regimes = state.regimes_of(layout.layout, layout.costs)
    layout.head.open += len(regimes) - 1
    if not regimes:
        state.end(layout, End.INFEASIBLE, math.inf)
    found = []
    for number, regime in enumerate(regimes):
        bound = max(layout.bound, regime.bound)
        if regime.recompute_seconds:
            bound = max(bound, least_work(layout.layout, layout.costs, regime.recompute_seconds))
        costs = regime.costs or layout.costs
        found.append(replace(layout, bound=bound, number=number, regime=regime, costs=costs))
    return found


def _bound(state: State, layout: Open, regime: Regime) -> None:
    """The next bound: the regime's own, then cuts that the memory allows."""
    schedule = schedule_of(layout.layout, layout.costs, regime)
    if regime.lower is not None:
        layout.bound = max(layout.bound, regime.lower(schedule))
        if layout.bound >= state.limit:
            heappush(state.open, layout)
            return
    layout.menu = menu_on(regime.menu(layout.costs), schedule)
    layout.problem = partition_problem(layout.costs, layout.menu, schedule, regime)
    if layout.problem.bound > layout.bound:
        layout.bound, layout.stage = layout.problem.bound, Stage.CUTS
    heappush(state.open, layout)


def solve(
    state: State,
    layout: Open,
    problem: Problem,
    menu: Menu | None,
    regime: Regime,
) -> None:
    """Solve one regime of a layout, until its bound passes the best plan or its turn is over.

    A turn is measured in nodes of search trees, so that what comes of it is the same on any
    machine; the time that is left is a guard.
    """
    assert menu is not None
    state.begun.add(layout.place)
    again = layout.cutoff < math.inf
    layout.cutoff = state.limit
    left = max(state.deadline - time.monotonic(), 0.0)
    if isinstance(problem, PartitionProblem):
        result = problem.solve(
            relative_gap=state.relative_gap,
            time_limit_seconds=left,
            cutoff=state.limit,
            most_nodes=None if again and state.thorough else TURN_NODES,
        )
        layout.cut_short = problem.cut_short
    else:
        result = problem.solve(
            relative_gap=state.relative_gap,
            time_limit_seconds=left if again else TURN * left,
            cutoff=state.limit,
        )
        layout.cut_short = isinstance(problem, SharedProblem) and problem.may_gain
    if isinstance(result, Infeasible):
        state.end(layout, End.INFEASIBLE, math.inf)
        state.nearer(layout.layout, result)
        return
    layout.bound = max(result.lower_bound, layout.bound)
    if isinstance(result, Partition):
        layout.bound = min(layout.bound, result.makespan)
        result = replace(result, lower_bound=layout.bound)
        found = Found(layout.layout, layout.costs, menu, problem.schedule, result, regime)
        layout.found = found
        if result.makespan < state.ceiling and _better(found, state.found):
            behind, state.leader = state.leader, layout
            if behind is None:
                return
            layout = behind
    _put_by(state, layout)


def _put_by(state: State, layout: Open) -> None:
    """Have done with a layout that does not lead, unless a better plan may tell more of it."""
    if layout is state.leader:
        return
    if layout.bound < state.limit and _can_be_solved_again(layout):
        state.loose.append(layout)
    else:
        conclude(state, layout)


def solve_again(state: State, *, cut_short: bool) -> bool:
    """Solve those whose bounds leave them open, where a better plan than then is known.

    The leader itself is among them: nothing may be faster by more than the gap asked for. Those
    whose turn was ``cut_short`` come last of all.
    """
    waiting, state.loose = state.loose, []
    again = False
    leader = state.leader
    if leader is not None and _can_be_solved_again(leader):
        waiting.append(leader)
    for layout in sorted(waiting):
        better = state.limit < layout.cutoff * (1 - EXACT)
        if layout.cut_short and not cut_short:
            if layout is not state.leader:
                state.loose.append(layout)
            continue
        better |= layout.cut_short
        if layout.bound < state.limit and better and not state.out_of_time():
            assert layout.problem is not None
            assert layout.regime is not None
            solve(state, layout, layout.problem, layout.menu, layout.regime)
            again = True
        elif layout is not state.leader:
            conclude(state, layout)
    return again


def _can_be_solved_again(layout: Open) -> bool:
    if isinstance(layout.problem, SharedProblem):
        return layout.problem.may_gain
    return isinstance(layout.problem, PartitionProblem)


def conclude(state: State, layout: Open) -> None:
    """Enter a layout's bound in the proof, and its plan among those that lost."""
    makespan = None if layout.found is None else layout.found.partition.makespan
    if layout.found is not None:
        state.end(layout, End.SOLVED, layout.bound)
    else:
        how = End.PRUNED if layout.bound >= state.limit else End.UNFINISHED
        state.end(layout, how, layout.bound, Stage.PARTITION)
    state.lose(layout.place, Loser(layout.layout, makespan, layout.bound))


def _better(candidate: Found, known: Found | None) -> bool:
    """Faster, or as fast on fewer devices."""
    if known is None:
        return True
    one, other = candidate.partition.makespan, known.partition.makespan
    if abs(one - other) <= EXACT * other:
        return candidate.layout.devices < known.layout.devices
    return one < other


def schedule_of(layout: Layout, costs: PipelineCosts, regime: Regime) -> Schedule:
    """The schedule of a layout; with recompute ahead where the regime has it."""
    schedule = make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        costs.micro_batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
    alone = schedule.virtual_stages == 1
    given = regime.splits is not None and alone  # given splits are decided on demand
    return recomputing_ahead(schedule) if regime.ahead and not given else schedule
