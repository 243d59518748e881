"""The frontier with host memory against every way to keep, recompute or offload each tensor."""

from __future__ import annotations

import itertools

import pytest

from solver.costs.pipeline import Block
from solver.recompute import choice_keeping, frontier, keep_all, needed_tensors
from solver.recompute.choice import offloading
from tests.solver.exhaustive import block_choices
from tests.solver.recompute.samples import random_blocks

BLOCKS = random_blocks(30, most_ops=6)
SHARES = (0.0, 0.3, 0.7, 1.1)
ROUNDING = 1e-9


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_every_choice_can_be_replaced_whatever_may_be_offloaded(block: Block) -> None:
    """No slower, keeping no more on the device, and with what is recomputed together no more."""
    for share in SHARES:
        budget = share * keep_all(block).kept_bytes
        choices = frontier(block, budget).choices
        for kept, seconds, rebuilt in block_choices(block, budget):
            assert any(
                choice.seconds <= seconds + ROUNDING
                and choice.kept_bytes <= kept + ROUNDING
                and choice.kept_bytes + choice.recompute_bytes <= kept + rebuilt + ROUNDING
                for choice in choices
            )


@pytest.mark.parametrize("block", BLOCKS[::3], ids=lambda b: b.name)
def test_no_three_way_choice_of_whole_tensors_is_better(block: Block) -> None:
    """Every tensor kept, recomputed or offloaded, the input kept or offloaded."""
    budget = 0.5 * keep_all(block).kept_bytes
    sizes = {"x": block.input_bytes} | {op.name: op.output_bytes for op in block.ops}
    needed = sorted(needed_tensors(block))
    choices = frontier(block, budget).choices
    for ways in itertools.product("kro", repeat=len(needed)):
        for input_way in "ko":
            of = dict(zip(needed, ways, strict=True)) | {"x": input_way}
            away = sum(sizes[name] for name, way in of.items() if way == "o")
            if away > budget:
                continue
            plain = choice_keeping(block, [name for name in needed if of[name] != "r"])
            kept = plain.kept_bytes - away
            assert any(
                choice.seconds <= plain.seconds + ROUNDING
                and choice.kept_bytes <= kept + ROUNDING
                and choice.kept_bytes + choice.recompute_bytes
                <= kept + plain.recompute_bytes + ROUNDING
                for choice in choices
            )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_what_is_offloaded_is_what_would_be_kept(block: Block) -> None:
    sizes = {"x": block.input_bytes} | {op.name: op.output_bytes for op in block.ops}
    budget = 0.4 * keep_all(block).kept_bytes
    for choice in frontier(block, budget).choices:
        plain = choice_keeping(block, needed_tensors(block) - set(choice.recomputed))
        away = sum(share * sizes[name] for name, share in choice.offloaded)
        assert away == pytest.approx(choice.offloaded_bytes, rel=1e-12)
        assert away <= budget * (1 + 1e-12)
        assert choice.kept_bytes + away == pytest.approx(plain.kept_bytes, rel=1e-12)
        assert not {name for name, _ in choice.offloaded}.intersection(choice.recomputed)


@pytest.mark.parametrize("block", BLOCKS[:10], ids=lambda b: b.name)
def test_without_a_budget_the_frontier_is_the_plain_one(block: Block) -> None:
    assert frontier(block, 0.0).choices == frontier(block).choices
    assert all(not choice.offloaded for choice in frontier(block).choices)


def test_tensors_leave_in_the_order_in_which_they_are_made() -> None:
    block = next(b for b in BLOCKS if len(needed_tensors(b)) > 2 and b.input_bytes > 0)
    whole = keep_all(block)
    half = offloading(block, whole, 0.5 * whole.kept_bytes)
    assert half.offloaded[0][0] == "x"
    assert [share for _, share in half.offloaded[:-1]] == [1.0] * (len(half.offloaded) - 1)
