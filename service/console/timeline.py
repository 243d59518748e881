"""The pipeline timeline in text: its beginning and its end where the whole does not fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console, ConsoleOptions
from rich.text import Text

from service.console.quantities import duration
from service.replay import Kind, Replay, replay
from solver.plan import Evaluation, Plan

_CYCLE_COLUMNS = 6
_STYLES = {
    Kind.FORWARD: "blue",
    Kind.BACKWARD: "yellow",
    Kind.RECOMPUTE: "magenta",
    Kind.COMMUNICATION: "cyan",
    Kind.OPTIMIZER: "dim",
    Kind.WEIGHT: "green",
}
_SIGNS = {Kind.RECOMPUTE: "r", Kind.COMMUNICATION: "c", Kind.OPTIMIZER: "o", Kind.WEIGHT: "w"}
_STALL = "."
_GAP = " ... "
_LEGEND = (
    "0-9 forward of a micro-batch (last digit), a-j its backward, r recompute, c communication, "
    "{weight}o optimizer, . stall"
)
_WEIGHT = "w weight gradients, "


class Timeline:
    """A row of signs per device; a column is a sixth of a steady-state cycle or more."""

    def __init__(self, answer: Plan | Evaluation) -> None:
        self._answer = answer

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Text]:
        answer = self._answer
        if answer.layout is None or not answer.stages:
            return
        found = replay(answer)
        label = len(f"{_name(found)} {found.devices - 1}  ")
        head, tail, seconds = _columns(found, max(40, options.max_width - label))
        for device in range(found.devices):
            line = Text(f"{_name(found)} {device}".ljust(label))
            line.append_text(_row(found, device, head, seconds))
            if len(tail):
                line.append(_GAP, style="dim")
                line.append_text(_row(found, device, tail, seconds))
            yield line
        said = f"A column is {duration(seconds)}, the whole {duration(found.makespan)}."
        late = bool((found.bars.kind == Kind.WEIGHT).any())
        legend = _LEGEND.format(weight=_WEIGHT if late else "")
        yield Text(f"{said} {legend}.", style="dim")


def _name(found: Replay) -> str:
    return "stage" if found.virtual_stages == 1 else "device"


def _columns(found: Replay, width: int) -> tuple[list[float], list[float], float]:
    """The moments of the columns: those of the beginning, those of the end, and their distance."""
    seconds = found.cycle_seconds / _CYCLE_COLUMNS
    count = int(np.ceil(found.makespan / seconds))
    if count <= width:
        seconds = found.makespan / width
        return [(i + 0.5) * seconds for i in range(width)], [], seconds
    half = (width - len(_GAP)) // 2
    head = [(i + 0.5) * seconds for i in range(half)]
    start = found.makespan - half * seconds
    return head, [start + (i + 0.5) * seconds for i in range(half)], seconds


def _row(found: Replay, device: int, moments: list[float], seconds: float) -> Text:
    bars = found.bars.where(found.bars.device == device)
    row = Text()
    for moment in moments:
        overlap = np.minimum(bars.end, moment + seconds / 2) - np.maximum(
            bars.start, moment - seconds / 2
        )
        longest = int(overlap.argmax())
        if overlap[longest] < seconds / 2:
            row.append(_STALL, style="dim")
            continue
        kind, number = Kind(int(bars.kind[longest])), int(bars.micro_batch[longest]) % 10
        row.append(_sign(kind, number), style=_STYLES[kind])
    return row


def _sign(kind: Kind, number: int) -> str:
    if kind is Kind.FORWARD:
        return str(number)
    return chr(ord("a") + number) if kind is Kind.BACKWARD else _SIGNS[kind]
