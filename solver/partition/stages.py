"""What a plan decides, stage by stage: which blocks, and what each of them recomputes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from solver.costs.pipeline import PipelineCosts
from solver.partition.deferring_menu import menu_by_stage
from solver.partition.menu import Menu, Part
from solver.partition.outcome import Partition
from solver.schedules import Schedule

AMPLE_BYTES = 1e24
"""A memory that everything fits, for judging policies that do not fit the real one."""


def with_ample_memory(costs: PipelineCosts) -> PipelineCosts:
    """The same costs on devices that everything fits."""
    devices = tuple(replace(one, capacity_bytes=AMPLE_BYTES) for one in costs.devices)
    return replace(costs, capacity_bytes=AMPLE_BYTES, devices=devices)


@dataclass(frozen=True)
class Stage:
    """A stage: blocks [start, stop) of the sequence, and their choices by kind.

    ``ahead``: what it recomputes outside windows runs ahead of the gradient, and all that it
    rebuilds is alive at once.
    """

    start: int
    stop: int
    parts: tuple[Part, ...]
    ahead: bool = False


def decided_stages(partition: Partition, menu: Menu) -> tuple[Stage, ...]:
    """The stages of a solved partition."""
    if partition.parts:
        decided = zip(partition.cuts, partition.parts, strict=True)
        return tuple(Stage(start, stop, parts) for (start, stop), parts in decided)
    found = []
    for stage, ((start, stop), mix) in enumerate(zip(partition.cuts, partition.mixes, strict=True)):
        ahead = bool(partition.ahead) and partition.ahead[stage] and mix.seconds > 0
        own = menu.at(stage)
        if partition.ahead and partition.ahead[stage]:
            own = own.ahead()
        found.append(Stage(start, stop, own.parts(mix), ahead))
    return tuple(found)


def stages_at(
    costs: PipelineCosts, menu: Menu, schedule: Schedule, cuts: tuple[tuple[int, int], ...]
) -> tuple[Stage, ...] | None:
    """The stages of given cuts, each with the menu's cheapest mix; None if one cannot fit."""
    stages = []
    for position, cut in enumerate(cuts):
        stage = stage_at(costs, menu, schedule, position, cut)
        if stage is None:
            return None
        stages.append(stage)
    return tuple(stages)


def stage_at(
    costs: PipelineCosts, menu: Menu, schedule: Schedule, position: int, cut: tuple[int, int]
) -> Stage | None:
    """One stage with the menu's cheapest mix; None if it cannot fit."""
    start, stop = cut
    run = costs.sequence[start:stop]
    counts = menu.signature(run, len(costs.blocks))
    device = schedule.device(position)
    states = sum(costs.at(device).blocks[kind].states.total for kind in run)
    asked, in_flight = _asked(costs, menu, schedule, position)
    mix = asked.cheapest(counts, states, in_flight)
    return None if mix is None else Stage(start, stop, asked.parts(mix))


def _asked(costs: PipelineCosts, menu: Menu, schedule: Schedule, stage: int) -> tuple[Menu, int]:
    """The menu of a stage and what to ask it for.

    Stages that share a device are asked for as if alone: for cuts whose memory is ample.
    """
    device = schedule.device(stage)
    if schedule.virtual_stages > 1:
        return menu.at(device), schedule.in_flight(stage)
    found, in_flight = menu_by_stage(costs.at(device), menu.at(device), schedule)
    return found, int(in_flight[stage])
