"""The frontier against the same program solved by a general solver."""

from __future__ import annotations

import itertools

import pytest

from solver.costs.pipeline import Block
from solver.recompute import choice_keeping, frontier
from solver.recompute.program import least_recompute
from tests.solver.recompute.samples import ATTENTION, random_blocks

BLOCKS = random_blocks(24, most_ops=11)


def by_frontier(block: Block, kept_bytes: float, held_bytes: float) -> float:
    """Least recompute seconds within both limits, read off the frontier."""
    return min(
        (
            choice.seconds
            for choice in frontier(block).choices
            if choice.kept_bytes <= kept_bytes
            and choice.kept_bytes + choice.recompute_bytes <= held_bytes
        ),
        default=float("inf"),
    )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_both_find_the_same_time_within_any_limits(block: Block) -> None:
    choices = frontier(block).choices
    kept = limits([choice.kept_bytes for choice in choices])
    held = limits([choice.kept_bytes + choice.recompute_bytes for choice in choices])
    for most_kept in kept:
        for most_held in held:
            found = least_recompute(block, most_kept, most_held)
            seconds = float("inf") if found is None else found.seconds
            expected = by_frontier(block, most_kept, most_held)
            assert seconds == pytest.approx(expected, rel=1e-6, abs=1e-9)


def limits(values: list[float]) -> list[float]:
    """A few limits between the values, one below all of them, and none.

    Values that differ by rounding only leave no room between them.
    """
    levels = sorted({round(value, 6) for value in values})
    between = [(low + high) / 2 for low, high in itertools.pairwise(levels)]
    return [levels[0] - 0.5, *between[:: max(len(between) // 2, 1)], float("inf")]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_the_solver_reaches_every_corner_of_the_frontier(block: Block) -> None:
    for choice in frontier(block).choices[:6]:
        held = choice.kept_bytes + choice.recompute_bytes
        found = least_recompute(block, choice.kept_bytes, held)
        assert found is not None
        assert found.seconds == pytest.approx(choice.seconds, rel=1e-6, abs=1e-9)
        assert found.kept_bytes <= choice.kept_bytes * (1 + 1e-6)


def test_without_limits_nothing_is_recomputed() -> None:
    found = least_recompute(ATTENTION)
    assert found is not None
    assert found.seconds == 0.0


def test_with_no_room_beside_the_input_everything_is_recomputed() -> None:
    assert least_recompute(ATTENTION, kept_bytes=10.0) == choice_keeping(ATTENTION, ())


def test_there_is_no_choice_without_room_for_the_input() -> None:
    assert least_recompute(ATTENTION, kept_bytes=9.0) is None
