"""The timeline as a trace that Perfetto and Chrome open (Trace Event Format, JSON)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from service.replay import Kind, Replay

_COLOURS = {  # names that the format reserves
    Kind.FORWARD: "thread_state_running",
    Kind.BACKWARD: "thread_state_iowait",
    Kind.RECOMPUTE: "terrible",
    Kind.COMMUNICATION: "good",
    Kind.OPTIMIZER: "grey",
    Kind.WEIGHT: "thread_state_runnable",
}


def trace(replay: Replay, title: str) -> str:
    """The trace as JSON text: one thread per device, times in microseconds."""
    return json.dumps(
        {
            "displayTimeUnit": "ms",
            "otherData": {"title": title},
            "traceEvents": [*_names(replay, title), *_events(replay)],
        },
        separators=(",", ":"),
    )


def _names(replay: Replay, title: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": title}}
    for device in range(replay.devices):
        name = f"{'stage' if replay.virtual_stages == 1 else 'device'} {device}"
        yield {"ph": "M", "pid": 0, "tid": device, "name": "thread_name", "args": {"name": name}}
        yield {
            "ph": "M",
            "pid": 0,
            "tid": device,
            "name": "thread_sort_index",
            "args": {"sort_index": device},
        }


def _events(replay: Replay) -> Iterator[dict[str, Any]]:
    bars = replay.bars
    for i in range(len(bars)):
        kind = Kind(int(bars.kind[i]))
        name = kind.name.lower()
        arguments: dict[str, int] = {}
        if bars.micro_batch[i] >= 0:
            name = f"{name} {bars.micro_batch[i]}"
            arguments["micro_batch"] = int(bars.micro_batch[i])
        if replay.virtual_stages > 1:
            arguments["chunk"] = int(bars.stage[i]) // replay.devices
        yield {
            "ph": "X",
            "pid": 0,
            "tid": int(bars.device[i]),
            "name": name,
            "cat": kind.name.lower(),
            "cname": _COLOURS[kind],
            "ts": round(float(bars.start[i]) * 1e6, 3),
            "dur": round(float(bars.end[i] - bars.start[i]) * 1e6, 3),
            "args": arguments,
        }
