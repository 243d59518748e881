"""Recent answers are kept within bounds of memory and time."""

from __future__ import annotations

from service.store.plans import StoredPlan
from service.store.recent import RecentAnswers


def plan(plan_id: str, size: int = 10) -> StoredPlan:
    return StoredPlan(plan_id, "succeeded", "x" * size, None)


def test_an_answer_is_kept_for_a_while_and_then_read_again() -> None:
    now = [0.0]
    recent = RecentAnswers(seconds=2.0, clock=lambda: now[0])
    recent.put(plan("a"))
    now[0] = 1.9
    assert recent.get("a") == plan("a")
    now[0] = 2.1
    assert recent.get("a") is None


def test_what_has_no_answer_is_not_kept() -> None:
    recent = RecentAnswers()
    recent.put(StoredPlan("a", "running", None, None))
    assert recent.get("a") is None


def test_the_least_recently_used_goes_first() -> None:
    recent = RecentAnswers(max_bytes=25)
    recent.put(plan("a"))
    recent.put(plan("b"))
    recent.get("a")
    recent.put(plan("c"))
    assert recent.get("b") is None
    assert recent.get("a")
    assert recent.get("c")


def test_an_answer_larger_than_the_bound_is_not_kept() -> None:
    recent = RecentAnswers(max_bytes=5)
    recent.put(plan("a"))
    assert recent.get("a") is None
    recent.put(plan("b", size=5))
    assert recent.get("b")


def test_a_forgotten_answer_is_gone() -> None:
    recent = RecentAnswers()
    recent.put(plan("a"))
    recent.forget("a")
    recent.forget("a")
    assert recent.get("a") is None
