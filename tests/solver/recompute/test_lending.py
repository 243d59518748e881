"""Who has which window: nothing is lost where none is contested, and real layers contest none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from solver.costs.pipeline import Block, Op, OpKind, Overlapping, PipelineCosts
from solver.question import question
from solver.recompute.lending import lending
from solver.request import PlanRequest

EXAMPLES = Path(__file__).parents[3] / "examples" / "overlap"


def block(*ops: Op) -> Block:
    return Block("layer", ops, 1.0)


def compute(name: str, seconds: float, *reads: str, inputs: tuple[str, ...] = ("x",)) -> Op:
    return Op(name, inputs, seconds, 2 * seconds, 1.0, reads)


def window(name: str, seconds: float) -> Op:
    return Op(name, ("x",), seconds, seconds, 0.0, (), OpKind.COMMUNICATION)


def test_a_window_that_no_own_tensor_may_use_is_the_one_lent() -> None:
    layer = block(window("first", 3.0), compute("wide", 1.0, "wide"), window("last", 2.0))
    found = lending(layer, (layer,), Overlapping())
    assert [w.op for w in found.own] == ["last"]
    assert len(found.lent) == 1
    assert not found.contested


def test_a_window_with_room_for_both_is_nobodys_alone() -> None:
    layer = block(compute("wide", 1.0, "wide"), window("last", 2.0))
    found = lending(layer, (layer,), Overlapping())
    assert [w.op for w in found.own] == [w.op for w in found.lent] == ["last"]
    assert not found.contested


def test_a_window_too_short_for_both_is_contested() -> None:
    layer = block(compute("wide", 1.0, "wide"), window("last", 1.5))
    found = lending(layer, (layer,), Overlapping())
    assert [w.op for w in found.contested] == ["last"]
    given = found.given_away()
    assert not set(given.own) & set(given.lent)


def test_a_slower_overlap_makes_windows_shorter() -> None:
    layer = block(compute("wide", 1.0, "wide"), window("last", 2.0))
    assert lending(layer, (layer,), Overlapping(slowdown=1.25)).contested


def test_a_window_that_nothing_fits_is_neither_used_nor_lent() -> None:
    layer = block(compute("wide", 1.0, "wide"), window("last", 0.5))
    found = lending(layer, (layer,), Overlapping())
    assert not found.own
    assert not found.lent


def _costs(path: Path) -> PipelineCosts:
    asked = question(PlanRequest.model_validate(json.loads(path.read_text())))
    return asked.costs(asked.some_layout)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("gpt-*[ek].json")), ids=lambda p: p.stem)
def test_layers_of_gpt_over_eight_ranks_contest_no_window(path: Path) -> None:
    costs = _costs(path)
    layer = next(b for b in costs.blocks if b.name == "layer")
    assert not lending(layer, (layer,), costs.overlapping).contested
