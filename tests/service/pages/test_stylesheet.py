"""Pages carry the rules of the style library that can apply to them, and no others."""

from __future__ import annotations

import pytest

from service.pages.stylesheet import (
    may_apply,
    selectors_of,
    sheet_text,
    squeezed,
    stylesheet,
    trimmed,
    without_unused_properties,
)

WORDS = frozenset({"nav", "a", "button", "secondary", "type=checkbox", "aria-current", "progress"})


@pytest.mark.parametrize(
    "selector",
    [
        "*",
        ":root:not([data-theme=dark])",
        "nav a[aria-current]",
        "button.secondary:hover",
        "[type=checkbox]:checked::after",
        ":where(dialog,nav) a",
    ],
)
def test_a_rule_stays_whose_names_are_all_used(selector: str) -> None:
    assert may_apply(selector, WORDS)
    assert trimmed(f"{selector}{{color:red}}", WORDS) == f"{selector}{{color:red}}"


@pytest.mark.parametrize(
    "selector", ["dialog", "nav ul", "button.contrast", "[type=range]", "[role=button]", ":host"]
)
def test_a_rule_goes_that_names_something_else(selector: str) -> None:
    assert not may_apply(selector, WORDS)
    assert trimmed(f"{selector}{{color:red}}", WORDS) == ""


def test_of_several_selectors_those_stay_that_may_apply() -> None:
    sheet = "dialog,nav,a:is(.x,.y){margin:0}@media print{dialog{margin:0}a{margin:0}}"
    assert trimmed(sheet, WORDS) == "nav,a:is(.x,.y){margin:0}@media print{a{margin:0}}"
    assert list(selectors_of("a:is(.x,.y), b")) == ["a:is(.x,.y)", "b"]


def test_an_animation_stays_whose_name_is_used() -> None:
    sheet = "@keyframes progress{to{left:0}}@keyframes modal{to{left:0}}"
    assert trimmed(sheet, WORDS) == "@keyframes progress{to{left:0}}"


def test_generated_boxes_of_every_element_are_not_styled() -> None:
    assert trimmed("*,::after,::before{box-sizing:border-box}", WORDS) == (
        "*{box-sizing:border-box}"
    )


def test_a_property_goes_with_the_last_that_refers_to_it() -> None:
    sheet = (
        ':root{--a:1px;--b:var(--a);--c:"};--d:1";--icon:url("data:;{}")}'
        "@media print{:root{--b:2px}}a{left:var(--c)}"
    )
    assert without_unused_properties(sheet) == ':root{--c:"};--d:1";}a{left:var(--c)}'


def test_squeezing_takes_comments_and_space_only() -> None:
    assert squeezed("a  b {\n  color : red; /* so */\n}\n@media (x) { i { top: 0 } }") == (
        "a b{color : red;}@media (x){i{top: 0}}"
    )


def test_the_sheet_of_the_pages_is_light_and_whole() -> None:
    sheet = stylesheet()
    assert len(sheet) < 0.65 * sum(
        len(sheet_text(name)) for name in ("pico.min.css", "pictures.css", "stagecut.css")
    )
    assert sheet.count("{") == sheet.count("}")
    for rule in (".picture .forward{", "details summary::after{", "[type=checkbox]:checked{"):
        assert rule in sheet or rule.replace("{", ",") in sheet
    assert "dialog" not in sheet
