"""The parts of a plan's page, each computed when the page comes to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import urlencode

from service.pages.drawings import View, draw, stage_of_interest
from service.pages.pictures.svg import Drawing
from service.pages.pictures.timeline import (
    Window,
    detail_legend,
    drawn_one_by_one,
    has_numbers,
    legend,
    whole,
)
from service.pages.shown import ShownPlan
from service.replay import Replay


@dataclass(frozen=True)
class Jump:
    """A link to another window of the timeline; ``key`` does the same on the keyboard."""

    name: str
    key: str
    start: float
    end: float

    @property
    def query(self) -> str:
        """The query that asks for it."""
        return urlencode({"from": f"{self.start:.9g}", "to": f"{self.end:.9g}"})


class TimelinePart:
    """The timeline within a window, and the ways to other windows."""

    def __init__(self, shown: ShownPlan, view: View) -> None:
        self._shown = shown
        self.view = view

    @cached_property
    def replay(self) -> Replay:
        """What is drawn."""
        return self._shown.replay

    @cached_property
    def window(self) -> Window:
        """The span that is drawn."""
        return self.view.window(self.replay)

    @cached_property
    def picture(self) -> Drawing:
        """The span."""
        return draw("timeline", self._shown, self.view)

    @cached_property
    def overview(self) -> Drawing | None:
        """The whole iteration, where the span is less."""
        if self.window == whole(self.replay):
            return None
        return draw("overview", self._shown, self.view)

    @cached_property
    def one_by_one(self) -> bool:
        """Whether every pass is a bar of its own."""
        return drawn_one_by_one(self.replay, self.window)

    @cached_property
    def numbered(self) -> bool:
        """Whether passes say which micro-batch they are of."""
        return has_numbers(self.replay)

    @cached_property
    def legend(self) -> list[tuple[str, str]]:
        """Style and words of the kinds of bars that there are."""
        details = detail_legend(self.replay, self.window)
        return [*legend(self.replay, critical=False), *details]

    @cached_property
    def jumps(self) -> list[Jump]:
        """Where one may go from here; phases only where the iteration is longer than a window."""
        window, total = self.window, self.replay.makespan
        middle, length = (window.start + window.end) / 2, window.seconds
        first = View().window(self.replay)

        def to(name: str, key: str, start: float, seconds: float) -> Jump:
            seconds = min(seconds, total)
            start = min(max(start, 0.0), total - seconds)
            return Jump(name, key, start, start + seconds)

        phases = [
            to("Warm-up", "1", 0.0, first.seconds),
            to("Steady state", "2", (total - first.seconds) / 2, first.seconds),
            to("Drain", "3", total - first.seconds, first.seconds),
        ]
        return [
            to("Whole", "0", 0.0, total),
            *(phases if first != whole(self.replay) else []),
            to("Earlier", "ArrowLeft", window.start - length / 2, length),
            to("Later", "ArrowRight", window.start + length / 2, length),
            to("Zoom in", "+", middle - length / 4, length / 2),
            to("Zoom out", "-", middle - length, length * 2),
        ]


class MemoryPart:
    """The memory of one device over the iteration."""

    def __init__(self, shown: ShownPlan, view: View) -> None:
        self._shown = shown
        self._view = view

    @cached_property
    def device(self) -> int:
        """The device that is followed."""
        return stage_of_interest(self._shown, self._view)

    @cached_property
    def devices(self) -> list[int]:
        """All devices."""
        return sorted({stage.index for stage in self._shown.plan.stages})

    @cached_property
    def pictures(self) -> Pictures:
        """What it holds when, wide and narrow."""
        return Pictures(self._shown, self._view)


class Pictures:
    """The other pictures, drawn when asked for."""

    def __init__(self, shown: ShownPlan, view: View) -> None:
        self._shown = shown
        self._view = view

    def __getitem__(self, name: str) -> Drawing:
        return draw(name, self._shown, self._view)

    @property
    def narrow(self) -> Pictures:
        """The same for a phone."""
        return Pictures(self._shown, replace(self._view, narrow=True))
