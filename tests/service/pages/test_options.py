"""Everything that may be chosen in a form says what it means."""

from __future__ import annotations

from service.pages.options import options
from solver.request import Offload, Overlap, Policy, ScheduleName, Software
from solver.targets.registry import TARGETS


def test_every_value_of_a_choice_has_words_of_its_own() -> None:
    found = options()
    for name, values in (
        ("schedules", ScheduleName),
        ("policies", Policy),
        ("overlaps", Overlap),
        ("offloads", Offload),
        ("software", Software),
        ("frameworks", TARGETS),
    ):
        assert [value for value, _ in found[name]] == list(values)
        assert len({words for _, words in found[name]}) == len(found[name])


def test_frameworks_are_named_as_people_name_them() -> None:
    for name, words in options()["frameworks"]:
        assert words.startswith(f"{TARGETS[name].title}: ")
