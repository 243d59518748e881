"""Every tensor in every place, against plain enumeration from the definitions."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from solver.costs.pipeline import Block, Op, OpKind, Overlapping
from solver.recompute.fill import Fill
from solver.recompute.placements import Placements, Slots, placements
from solver.recompute.windows import placeable, windows
from tests.solver.exhaustive_overlap import Way, block_ways
from tests.solver.overlap_samples import block_with_windows

AS_IS = np.zeros(0)


def compared(costs: tuple[float, ...]) -> tuple[float, ...]:
    """Bytes rebuilt and early may grow by what kept bytes shrink."""
    kept, seconds, rebuilt, early, *used = costs
    return (kept, seconds, kept + rebuilt, kept + early, *used)


def covers(some: list[tuple[float, ...]], all_of: list[tuple[float, ...]]) -> bool:
    """Whether each of ``all_of`` has one in ``some`` that is no larger in any cost."""
    return all(
        any(all(a <= b + 1e-9 for a, b in zip(mine, costs, strict=True)) for mine in some)
        for costs in map(compared, all_of)
    )


def flat(made: Placements) -> list[tuple[float, ...]]:
    arrays = (made.kept, made.seconds, made.rebuilt, made.early)
    return [
        (*(float(array[row]) for array in arrays), *made.own[row], *made.following[row])
        for row in range(len(made.choices))
    ]


def of_way(way: Way, block: Block, following: Block | None) -> tuple[float, ...]:
    """The costs of a way, uses of windows without length left out."""

    def lasting(used: tuple[float, ...], of: Block | None) -> list[float]:
        if of is None:
            return []
        found = [op for op in reversed(of.ops) if op.kind is OpKind.COMMUNICATION]
        return [u for u, op in zip(used, found, strict=True) if op.backward_seconds > 0]

    used = (*lasting(way.own, block), *lasting(way.following, following))
    return (way.kept, way.seconds, way.rebuilt, way.early, *used)


@pytest.mark.parametrize("seed", range(120))
def test_placements_equal_every_tensor_in_every_place(seed: int) -> None:
    rng = random.Random(seed)
    whole = rng.random() < 0.5
    block = block_with_windows(rng, "a", rng.randint(1, 5), whole)
    following = rng.choice([None, block, block_with_windows(rng, "b", rng.randint(1, 3), whole)])
    overlapping = Overlapping(rng.choice([1.0, 1.3]))
    lent = windows(following, overlapping) if following is not None else ()
    own = windows(block, overlapping)
    slots = Slots(lent, own, tuple(Fill(window.seconds, AS_IS) for window in (*lent, *own)))
    made = placements(block, slots, 0.0, 10**9)
    assert made is not None
    ways = block_ways(block, following, overlapping.slowdown, windows=True)
    slow = [of_way(way, block, following) for way in ways]
    found = flat(made)
    assert covers([compared(costs) for costs in found], slow)
    assert covers([compared(costs) for costs in slow], found)


@pytest.mark.parametrize("seed", range(40))
def test_a_window_of_one_block_alone_loses_no_choice(seed: int) -> None:
    """Its uses are told apart only as far as ops that are still undecided could stand in it."""
    rng = random.Random(seed)
    block = block_with_windows(rng, "a", rng.randint(1, 5), rng.random() < 0.5)
    own = windows(block, Overlapping())
    seconds = [op.forward_seconds for op in block.ops if op.name in placeable(block)]
    fills = tuple(Fill.of(window.seconds, seconds) for window in own)
    alone = placements(block, Slots((), own, fills, (False,) * len(own)), 0.0, 10**9)
    shared = placements(block, Slots((), own, fills), 0.0, 10**9)
    assert alone is not None
    assert shared is not None
    uses = len(own)
    found = [costs[: len(costs) - uses] for costs in flat(alone)]
    slow = [costs[: len(costs) - uses] for costs in flat(shared)]
    assert covers([compared(costs) for costs in found], slow)
    assert covers([compared(costs) for costs in slow], found)
    capacity = np.array([window.seconds for window in own])
    assert (alone.own <= capacity * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(40))
def test_counting_uses_in_steps_that_matter_loses_nothing(seed: int) -> None:
    """What two blocks may place together in a window is the same with uses rounded up."""
    rng = random.Random(seed)
    block = block_with_windows(rng, "a", 4, whole=False)
    own = windows(block, Overlapping())
    seconds = [op.forward_seconds for op in block.ops if op.name in placeable(block)]
    for window in own:
        fill = Fill.of(window.seconds, 2 * seconds)
        sums = [
            sum(picked)
            for size in range(len(seconds) + 1)
            for picked in itertools.combinations(seconds, size)
        ]
        for one, other in itertools.product(sums, repeat=2):
            if one > window.seconds:
                continue
            rounded = float(fill.up(np.array([one]))[0])
            assert (one + other <= window.seconds) == (rounded + other <= window.seconds + 1e-12)


def test_a_window_after_the_reader_takes_nothing() -> None:
    """The first op's backward comes last: by then every reader has read."""
    ops = (
        Op("reduce", ("x",), 1.0, 5.0, 1.0, (), OpKind.COMMUNICATION),
        Op("wide", ("x",), 1.0, 1.0, 8.0, ("wide",)),
    )
    block = Block("layer", ops, 1.0)
    own = windows(block, Overlapping())
    alone = placements(block, Slots((), own, (Fill(5.0, AS_IS),)), 0.0, 100)
    assert alone is not None
    assert not any(choice.placed for choice in alone.choices)
    behind = placements(block, Slots(own, (), (Fill(5.0, AS_IS),)), 0.0, 100)
    assert behind is not None
    assert [p.following for choice in behind.choices for p in choice.placed] == [True]


def test_hidden_recompute_that_slows_the_collective_is_charged() -> None:
    ops = (
        Op("wide", ("x",), 1.0, 1.0, 8.0, ("wide",)),
        Op("reduce", ("wide",), 1.0, 5.0, 1.0, (), OpKind.COMMUNICATION),
    )
    block = Block("layer", ops, 1.0)
    own = windows(block, Overlapping())
    made = placements(block, Slots((), own, (Fill(5.0, AS_IS),)), 0.25, 100)
    assert made is not None
    assert [c.seconds for c in made.choices if c.placed] == [0.25]
    assert [c.hidden_seconds for c in made.choices if c.placed] == [1.0]
