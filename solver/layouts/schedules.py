"""What each pipeline schedule asks of a layout: chunks per device, and halves of equal size."""

from __future__ import annotations

from solver.request import LayoutRequest, ScheduleName
from solver.schedules import SCHEDULES, Interleaved, OneForwardOneBackward

NAMES = tuple(name.value for name in ScheduleName)
"""The schedules that a request may name."""


def virtual_stages(asked: LayoutRequest) -> int:
    """Chunks per device: what is asked, else what the schedule is made for."""
    given, schedule = asked.values("virtual_stages"), asked.values("schedule")
    if given is not None:
        return int(given[0])
    return 1 if schedule is None else SCHEDULES[ScheduleName(schedule[0]).value].chunks or 1


def suits(schedule: str, chunks: int) -> bool:
    """Whether a schedule is made for so many chunks per device."""
    return chunks >= 1 if schedule == OneForwardOneBackward.name else _chunks(schedule) == chunks


def shares_devices(schedule: str, chunks: int) -> bool:
    """Whether several stages stand on a device."""
    return chunks > 1 or SCHEDULES[schedule].even


def runs_alone(schedule: str) -> bool:
    """Whether it may have a single stage."""
    return suits(schedule, 1) and not SCHEDULES[schedule].even


def takes_groups(schedule: str, chunks: int) -> bool:
    """Whether it takes micro-batches through a chunk in groups: the interleaved one."""
    return chunks > 1 and schedule in (OneForwardOneBackward.name, Interleaved.name)


def chunks_misfit(schedule: str, chunks: int) -> tuple[str, str] | None:
    """The field to change and what is wrong, or None."""
    if suits(schedule, chunks):
        return None
    title, made_for = SCHEDULES[schedule].title, _chunks(schedule)
    if made_for == 1:
        return "schedule", f"{title} has no interleaved form; virtual stages need 1F1B."
    return "virtual_stages", f"{title} places {made_for} chunks of the model on every device."


def devices_misfit(schedule: str, devices: int) -> tuple[str, str] | None:
    """The field to change and what is wrong, or None."""
    if not SCHEDULES[schedule].even or devices % 2 == 0:
        return None
    title = SCHEDULES[schedule].title
    return "pipeline_parallel", (
        f"{title} runs two pipelines in opposite directions over an even number of devices; "
        f"{devices} is odd."
    )


def micro_batches_misfit(schedule: str, count: int) -> str | None:
    """What is wrong with so many micro-batches per iteration, or None."""
    if not SCHEDULES[schedule].even or count % 2 == 0:
        return None
    return (
        f"{SCHEDULES[schedule].title} sends half of the micro-batches through each of its two "
        f"pipelines; {count} is odd."
    )


def _chunks(schedule: str) -> int | None:
    return SCHEDULES[schedule].chunks
