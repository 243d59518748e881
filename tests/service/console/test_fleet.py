"""What schedulers are told fits a terminal of 80 columns, and is said in words."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, RenderableType

from service.console.fleet import contingency_tables, curve_table
from service.schema_examples import sample
from solver.capacity.documents import CapacityAnswer
from solver.contingencies.documents import ContingencyAnswer


def printed(*parts: RenderableType) -> str:
    console = Console(file=StringIO(), width=80)
    for part in parts:
        console.print(part)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    return text


def test_a_capacity_curve_says_which_sizes_are_worth_knowing() -> None:
    curve = CapacityAnswer.model_validate(sample("capacity")).curves[0]
    text = printed(curve_table(curve))
    assert "wasteful: 4 nodes do as well" in text
    assert f"{curve.knee} nodes: the knee" in text
    assert "1 node: the smallest that fits" in text


def test_a_size_on_which_nothing_fits_says_so() -> None:
    curve = CapacityAnswer.model_validate(sample("capacity")).curves[0]
    small = curve.points[0].model_copy(update={"feasible": False, "layout": None})
    found = curve.model_copy(update={"points": [small, *curve.points[1:]], "knee": None})
    text = printed(curve_table(found))
    assert "nothing fits" in text
    assert "the knee" not in text


def test_actions_are_told_in_words() -> None:
    answer = ContingencyAnswer.model_validate(sample("contingency"))
    text = printed(*contingency_tables(answer))
    assert "keep with spare" in text
    assert "at once" in text
