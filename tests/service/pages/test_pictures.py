"""Pictures say what the plan says, are well formed, and stay small."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from service.pages.drawings import PICTURES, View, draw
from service.pages.parts import TimelinePart
from service.pages.pictures.memory import memory
from service.pages.pictures.svg import NARROW, WIDTH, size_unit, ticks
from service.pages.pictures.tensors import columns, tensors
from service.pages.pictures.timeline import (
    MOST_BARS,
    drawn_one_by_one,
    first_window,
    whole,
)
from service.pages.raster import SCALE, png
from service.pages.shown import ShownPlan
from solver.planner import plan
from tests.service.pages.plans import long_pipeline, sample_plan
from tests.solver.test_overlap import asked

SMALL, DEEP = sample_plan(), long_pipeline()
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("shown", [SMALL, DEEP], ids=["small", "deep"])
def test_a_picture_is_a_well_formed_file_that_needs_no_other(name: str, shown: ShownPlan) -> None:
    text = draw(name, shown, View()).standalone(shown.title)
    assert "var(" not in text
    assert shown.title in text
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.get("aria-label")
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"\bnan\b|\binf\b", text)


@pytest.mark.parametrize(
    "name", [name for name in PICTURES if name not in ("timeline", "overview")]
)
def test_a_phone_gets_a_picture_of_its_own_width(name: str) -> None:
    if name in ("breakdown", "layouts"):
        assert "<text" not in draw(name, SMALL, View()).inline()  # it may be of any width
        return
    drawn = draw(name, SMALL, View(narrow=True))
    assert drawn.width == NARROW
    places = [float(x) for x in re.findall(r'<(?:text|rect)[^>]* x="([0-9.]+)"', drawn.inline())]
    assert max(places) < NARROW


def test_hidden_recompute_is_drawn_below_its_backward_and_named() -> None:
    request = asked("communication")
    hides = ShownPlan(request, plan(request))
    drawn = draw("timeline", hides, View())
    assert any("under communication" in words for _, words in drawn.legend)
    strips = re.findall(r'<path class="recompute" d="([^"]*)"', drawn.inline())
    hiding = sum(stage.hidden_recompute_seconds > 0 for stage in hides.plan.stages)
    assert strips[-1].count("M") == 6 * hiding > 0
    on_the_page = TimelinePart(hides, View()).legend
    assert any("under communication" in words for _, words in on_the_page)
    plain = draw("timeline", SMALL, View())
    assert not any("under communication" in words for _, words in plain.legend)


def test_a_picture_as_png_is_as_large_as_it_says_and_not_empty() -> None:
    drawn = draw("memory", SMALL, View()).standalone("a title")
    width = float(re.search(r' width="([0-9.]+)"', drawn)[1])  # type: ignore[index]
    pixels = png(drawn)
    assert pixels.startswith(b"\x89PNG")
    assert int.from_bytes(pixels[16:20], "big") == round(width * SCALE)
    assert len(pixels) > 20_000
    assert pixels == png(drawn)


def test_layouts_that_lost_are_a_dot_or_an_open_arrow() -> None:
    text = draw("alternatives", SMALL, View()).inline()
    assert (text.count('"solved"'), text.count('"only-bound"')) == (1, 1)
    solved, bounded = SMALL.alternatives
    assert solved.seconds is not None
    assert bounded.seconds is None
    assert "tensor 2" in text


def test_sixty_four_stages_and_512_micro_batches_stay_small() -> None:
    for view in (View(), View(0.0, DEEP.replay.makespan)):
        assert len(draw("timeline", DEEP, view).inline()) < 300_000
        assert len(draw("overview", DEEP, view).inline()) < 100_000
    assert len(draw("memory-over-time", DEEP, View(stage=0)).inline()) < 100_000


def test_a_long_pipeline_is_drawn_as_shares_as_a_whole_and_pass_by_pass_from_near() -> None:
    replay = DEEP.replay
    assert not drawn_one_by_one(replay, whole(replay))
    first = first_window(replay)
    assert drawn_one_by_one(replay, first)
    assert len(replay.bars.within(first.start, first.end)) <= MOST_BARS


def test_a_short_iteration_is_shown_whole() -> None:
    assert first_window(SMALL.replay) == whole(SMALL.replay)


@pytest.mark.parametrize(
    ("start", "end"), [(-5.0, None), (0.1, 0.1), (99.0, 100.0), (0.3, 0.2), (None, 1e9)]
)
def test_any_window_is_brought_into_the_iteration(start: float | None, end: float | None) -> None:
    replay = SMALL.replay
    window = View(start, end).window(replay)
    assert 0 <= window.start < window.end <= replay.makespan + 1e-3
    draw("timeline", SMALL, View(start, end))


def test_tips_go_with_the_page_as_one_attribute_and_with_a_file_as_elements() -> None:
    drawn = draw("timeline", SMALL, View())
    page, file = (
        ElementTree.fromstring(text) for text in (drawn.inline(scripted=True), drawn.standalone())
    )
    told = [tip for path in page.iter("path") for tip in (path.get("data-tips") or "|").split("|")]
    titles = [title.text for title in file.iter(f"{SVG}title")]
    assert sorted(filter(None, told)) == sorted(titles)
    assert len(titles) == len(SMALL.replay.bars)
    assert len(list(page.iter())) < len(list(file.iter())) / 2
    for path in page.iter("path"):
        if tips := path.get("data-tips"):
            assert path.get("d", "").count("M") == len(tips.split("|"))


def test_bars_of_memory_add_up_to_the_peak() -> None:
    root = ElementTree.fromstring(draw("memory", SMALL, View()).standalone())
    tips = [title.text or "" for title in root.iter(f"{SVG}title")]
    for stage in SMALL.plan.stages:
        parts = [tip for tip in tips if tip.startswith(f"stage {stage.index} · ")]
        known = [value for value in stage.memory.model_dump().values() if value > 0]
        assert len(parts) == len(known)
    widths = [
        float(bar.get("width", 0))
        for bar in root.iter(f"{SVG}rect")
        if bar.find(f"{SVG}title") is not None
    ]
    peaks = sum(stage.peak_memory_bytes for stage in SMALL.plan.stages)
    limit = SMALL.plan.memory_limit_bytes or 0.0
    scale = (WIDTH - 74.0 - 84.0) / (limit * 1.02)
    assert sum(widths) == pytest.approx(peaks * scale, rel=1e-2)


def test_the_grid_has_a_column_for_every_block_and_recomputes_as_many_as_the_plan() -> None:
    found = columns(SMALL.plan.stages)
    assert len(found) == sum(count for stage in SMALL.plan.stages for _, count in stage.blocks)
    for position, stage in enumerate(SMALL.plan.stages):
        said = sum(part.count for part in stage.recompute if part.recomputed)
        assert sum(bool(c.recomputed) for c in found if c.stage == position) == said


def test_the_grid_shows_what_waits_in_host_memory() -> None:
    stages = list(SMALL.plan.stages)
    entries = [entry.model_copy(update={"offloaded": {"x": 0.5}}) for entry in stages[0].recompute]
    stages[0] = stages[0].model_copy(update={"recompute": entries})
    drawn = tensors(stages, SMALL.plan.block_kinds)
    assert ("offloaded", "In host memory") in drawn.legend
    assert 'class="offloaded"' in drawn.inline()
    assert ">input<" in drawn.inline()
    plain = tensors(SMALL.plan.stages, SMALL.plan.block_kinds)
    assert "offloaded" not in plain.inline()


def test_ticks_are_round_and_within() -> None:
    assert ticks(0.0, 1.0, 10) == pytest.approx([i / 10 for i in range(11)])
    for low, high in ((0.0, 57.3), (12.1, 12.4), (0.0, 3e-5), (5.0, 9e4)):
        found = ticks(low, high, 10)
        assert 2 <= len(found) <= 11
        assert low <= found[0] + 1e-9
        assert found[-1] <= high * (1 + 1e-9)


def test_dimmed_chunks_are_in_the_legend_where_they_are_dimmed() -> None:
    chunked = long_pipeline(devices=4, micro_batches=8, chunks=2)
    assert any("Dimmed" in words for _, words in draw("timeline", chunked, View()).legend)
    assert "chunk1" in draw("timeline", chunked, View()).inline()
    for shown in (SMALL, long_pipeline(devices=16, micro_batches=512, chunks=2)):
        drawn = draw("timeline", shown, View(start=0.0))
        assert not any("Dimmed" in words for _, words in drawn.legend)
        assert "chunk1" not in drawn.inline()


def test_every_stage_is_drawn_against_the_limit_of_its_own_device() -> None:
    stages = [
        stage.model_copy(update={"memory_limit_bytes": gib * 2.0**30})
        for stage, gib in zip(SMALL.plan.stages, (79, 38), strict=True)
    ]
    drawn = memory(stages, 38 * 2.0**30).inline()
    assert "of 79.0 GiB" in drawn
    assert "of 38.0 GiB" in drawn
    assert drawn.count('class="limit"') == 2
    alike = draw("memory", SMALL, View()).inline()
    assert alike.count('class="limit"') == 1
    assert "limit 21.4 GiB" in alike


def test_sizes_are_in_the_unit_that_reads_best() -> None:
    assert size_unit(24.0).label(20.0) == "20 B"
    assert size_unit(3 * 2.0**30).label(2.0**30) == "1 GiB"
    for most in (28.0, 1e5, 3e8, 1e12):
        places = size_unit(most).ticks(most, 5)
        assert 2 <= len(places) <= 6
        assert places[0] == 0.0
        assert places[-1] <= most
