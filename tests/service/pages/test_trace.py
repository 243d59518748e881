"""The trace is what Perfetto reads: every pass once, in microseconds."""

from __future__ import annotations

import json

import pytest

from service.pages.shown import ShownPlan
from service.pages.trace import trace
from tests.service.pages.plans import long_pipeline, sample_plan


@pytest.mark.parametrize("shown", [sample_plan(), long_pipeline(4, 8, chunks=2)])
def test_every_bar_is_an_event_on_the_thread_of_its_device(shown: ShownPlan) -> None:
    replay = shown.replay
    document = json.loads(trace(replay, "a title"))
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert len(events) == len(replay.bars)
    assert {event["tid"] for event in events} == set(range(replay.devices))
    end = max(event["ts"] + event["dur"] for event in events)
    assert end == pytest.approx(replay.makespan * 1e6, rel=1e-6)
    names = [e for e in document["traceEvents"] if e.get("name") == "thread_name"]
    assert len(names) == replay.devices
