"""The command line writes a report and a trace beside its answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.console.files import write_pictures, write_report, write_trace
from service.problems import ProblemError
from solver.plan import Plan, Status
from tests.service.pages.plans import sample_plan


def test_report_and_trace_are_written(tmp_path: Path) -> None:
    shown = sample_plan()
    write_report(shown.request, shown.plan, str(tmp_path / "r.html"))
    write_trace(shown.request, shown.plan, str(tmp_path / "t.json"))
    assert "One iteration takes" in (tmp_path / "r.html").read_text("utf-8")
    assert json.loads((tmp_path / "t.json").read_text("utf-8"))["traceEvents"]


def test_without_a_plan_there_is_no_trace(tmp_path: Path) -> None:
    failed = Plan(id="x", status=Status.FAILED, error="no time")
    with pytest.raises(ProblemError, match="Without a plan"):
        write_trace(sample_plan().request, failed, str(tmp_path / "t.json"))
    write_report(sample_plan().request, failed, str(tmp_path / "r.html"))
    assert "no time" in (tmp_path / "r.html").read_text("utf-8")


def test_every_picture_is_written_as_text_and_as_pixels(tmp_path: Path) -> None:
    shown = sample_plan()
    write_pictures(shown.request, shown.plan, str(tmp_path / "new" / "folder"))
    written = {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()}
    assert {"timeline.svg", "timeline.png", "memory.png", "alternatives.svg"} <= set(written)
    for name, content in written.items():
        assert content.startswith(b"\x89PNG" if name.endswith("png") else b"<svg"), name
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ProblemError):
        write_pictures(shown.request, shown.plan, str(blocked))


def test_a_file_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    shown = sample_plan()
    with pytest.raises(ProblemError, match="No such file"):
        write_report(shown.request, shown.plan, str(tmp_path / "no" / "folder.html"))
