"""The pictures of a plan by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.pages.pictures.alternatives import alternatives
from service.pages.pictures.baselines import baselines
from service.pages.pictures.breakdown import breakdown
from service.pages.pictures.layouts_considered import layouts_considered
from service.pages.pictures.memory import memory
from service.pages.pictures.memory_over_time import memory_over_time
from service.pages.pictures.svg import NARROW, WIDTH, Drawing
from service.pages.pictures.tensors import tensors
from service.pages.pictures.timeline import Window, first_window, overview, timeline, whole
from service.pages.shown import ShownPlan
from service.replay import Replay


@dataclass(frozen=True)
class View:
    """What a reader has chosen to see: a span of the timeline, the path on it, a stage.

    ``narrow`` is for phones; the timeline has no such form, it is scrolled.
    """

    start: float | None = None
    end: float | None = None
    critical: bool = True
    stage: int | None = None
    narrow: bool = False

    @property
    def width(self) -> float:
        """The width of pictures, in their own units."""
        return NARROW if self.narrow else WIDTH

    def window(self, replay: Replay) -> Window:
        """The span, within the iteration and not too short to draw."""
        if self.start is None and self.end is None:
            return first_window(replay)
        least = max(replay.cycle_seconds / 50, replay.makespan * 1e-6, 1e-12)
        start = min(max(self.start or 0.0, 0.0), max(replay.makespan - least, 0.0))
        end = replay.makespan if self.end is None else min(self.end, replay.makespan)
        return Window(start, max(end, start + least))


def draw(name: str, shown: ShownPlan, view: View) -> Drawing:
    """The picture of that name.

    Raises:
        KeyError: There is no such picture, or the plan has nothing to draw.
    """
    if not shown.has_stages:
        raise KeyError(name)
    return PICTURES[name](shown, view)


def stage_of_interest(shown: ShownPlan, view: View) -> int:
    """The device whose memory is followed: the chosen one, or else the fullest."""
    stages = shown.plan.stages
    if view.stage is not None and any(stage.index == view.stage for stage in stages):
        return view.stage
    return max(stages, key=lambda stage: stage.peak_memory_bytes).index


def _timeline(shown: ShownPlan, view: View) -> Drawing:
    return timeline(shown.replay, view.window(shown.replay), critical=view.critical)


def _overview(shown: ShownPlan, view: View) -> Drawing:
    window = view.window(shown.replay)
    return overview(shown.replay, None if window == whole(shown.replay) else window)


def _memory(shown: ShownPlan, view: View) -> Drawing:
    return memory(shown.plan.stages, shown.plan.memory_limit_bytes or 0.0, view.width)


def _memory_over_time(shown: ShownPlan, view: View) -> Drawing:
    device = stage_of_interest(shown, view)
    return memory_over_time(
        shown.replay, shown.plan.stages, device, shown.limit_of(device), view.width
    )


def _tensors(shown: ShownPlan, view: View) -> Drawing:
    if not shown.plan.block_kinds:
        raise KeyError("tensors")
    return tensors(shown.plan.stages, shown.plan.block_kinds, view.width)


def _breakdown(shown: ShownPlan, _view: View) -> Drawing:
    assert shown.plan.breakdown is not None
    return breakdown(shown.plan.breakdown, shown.plan.iteration_seconds or 1.0)


def _baselines(shown: ShownPlan, view: View) -> Drawing:
    if not shown.plan.baselines:
        raise KeyError("baselines")
    return baselines(shown.plan.baselines, shown.plan.iteration_seconds or 0.0, view.width)


def _alternatives(shown: ShownPlan, view: View) -> Drawing:
    plan = shown.plan
    if not plan.alternatives or plan.layout is None:
        raise KeyError("alternatives")
    return alternatives(plan.alternatives, plan.layout, plan.iteration_seconds or 0.0, view.width)


def _layouts(shown: ShownPlan, _view: View) -> Drawing:
    if shown.plan.solver is None:
        raise KeyError("layouts")
    return layouts_considered(shown.plan.solver)


PICTURES: dict[str, Callable[[ShownPlan, View], Drawing]] = {
    "timeline": _timeline,
    "overview": _overview,
    "memory": _memory,
    "memory-over-time": _memory_over_time,
    "tensors": _tensors,
    "breakdown": _breakdown,
    "baselines": _baselines,
    "alternatives": _alternatives,
    "layouts": _layouts,
}
