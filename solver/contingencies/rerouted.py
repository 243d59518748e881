"""The run whose failed stages hand their micro-batches to the same stage of other replicas.

No state moves (ReCycle, Gandhi et al., SOSP 2024): a micro-batch of replica r passes stage s on
replica r, or where that has failed on one of the replicas that are left there, in turn. Every
device runs a backward pass when one is ready, else a forward pass while it has room for what that
keeps: the room of the running schedule, and as a second try more, where its memory holds it. The
better of both is told; it is the exact makespan of an order that can be run. The bound is the
busiest device's work with the shortest way to it and back, which no order undercuts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MOST_PASSES = 4_000
"""Passes that are simulated one by one; what more of them add is told from the last third."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Lanes:
    """Replicas side by side, some of whose stages have failed.

    ``alive``: shape (stages, replicas). Seconds by stage: ``forward`` and ``backward`` of a
    micro-batch, ``before`` its first, ``after`` its last, ``step`` at the end. ``room``:
    micro-batches whose tensors a device of the stage can keep, by stage.
    """

    alive: Flags
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    step: tuple[float, ...]
    send: float
    room: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Stages and replicas."""
        stages, replicas = self.alive.shape
        return stages, replicas

    def usual(self) -> tuple[int, ...]:
        """The room that the running schedule takes, by stage, where there is so much."""
        stages, _ = self.shape
        return tuple(min(stages - stage, room) for stage, room in enumerate(self.room))

    def wide(self) -> tuple[int, ...]:
        """Twice what a device's share in the usual room of all replicas is, likewise."""
        _, replicas = self.shape
        return tuple(
            min(room, 2 * own * replicas // int(self.alive[stage].sum()))
            for stage, (own, room) in enumerate(zip(self.usual(), self.room, strict=True))
        )


def rerouted(lanes: Lanes, micro_batches: int) -> float:
    """Seconds of an iteration with ``micro_batches`` of every replica.

    Of a run of very many passes the first are simulated; the others take as long as the last third
    of those, each.
    """
    stages, replicas = lanes.shape
    most = max(MOST_PASSES // (2 * stages * replicas), 12 * stages)
    rooms = (lanes.usual(), lanes.wide())
    if micro_batches <= most:
        return min(run(lanes, micro_batches, room) for room in rooms)
    seconds, room = min((run(lanes, most, room), room) for room in rooms)
    earlier = most - most // 3
    each = (seconds - run(lanes, earlier, room)) / (most - earlier)
    return seconds + (micro_batches - most) * each


def bound(lanes: Lanes, micro_batches: int) -> float:
    """What no order of these routes undercuts: the busiest device's work, the way there and back.

    Some device of stage s passes at least the mean of what the stage's devices pass.
    """
    stages, replicas = lanes.shape
    ways = [f + b for f, b in zip(lanes.forward, lanes.backward, strict=True)]
    found = 0.0
    for stage in range(stages):
        passes = math.ceil(micro_batches * replicas / int(lanes.alive[stage].sum()))
        work = passes * ways[stage]
        there = sum(lanes.forward[:stage]) + stage * lanes.send
        beyond = stages - 1 - stage
        # The last pass of the device still goes back to the first stage; its first had to come.
        back = sum(lanes.backward[:stage]) + stage * lanes.send
        # Between its first forward and backward a micro-batch passes all later stages.
        further = sum(ways[stage + 1 :]) + 2 * beyond * lanes.send
        own = max(work, ways[stage] + further)
        found = max(found, there + own + max(back, lanes.after[stage]))
    return found + max(lanes.step)


def run(lanes: Lanes, micro_batches: int, room: Sequence[int]) -> float:
    """Seconds of the list schedule with so much room; time goes from event to event."""
    stages, replicas = lanes.shape
    route = _routes(lanes.alive, micro_batches)
    forward: list[list[list[tuple[int, int]]]] = [[[] for _ in range(replicas)] for _ in room]
    backward: list[list[list[tuple[int, int]]]] = [[[] for _ in range(replicas)] for _ in room]
    held = [[0] * replicas for _ in room]
    idle = [[True] * replicas for _ in room]
    ends = [0.0] * stages
    events: list[tuple[float, int, int, int, int, int]] = []  # when, what, stage, lane, batch
    for batch in range(micro_batches):
        for origin in range(replicas):
            lane = route[0][batch][origin]
            heapq.heappush(forward[0][lane], (batch, origin))
    start = lanes.before

    def begin(stage: int, lane: int, now: float) -> None:
        """Let an idle device take the next pass that is ready."""
        if not idle[stage][lane]:
            return
        if backward[stage][lane]:
            batch, origin = heapq.heappop(backward[stage][lane])
            heapq.heappush(events, (now + lanes.backward[stage], 1, stage, lane, batch, origin))
        elif forward[stage][lane] and held[stage][lane] < room[stage]:
            batch, origin = heapq.heappop(forward[stage][lane])
            held[stage][lane] += 1
            heapq.heappush(events, (now + lanes.forward[stage], 0, stage, lane, batch, origin))
        else:
            return
        idle[stage][lane] = False

    for stage in range(stages):
        for lane in range(replicas):
            if lanes.alive[stage, lane]:
                idle[stage][lane] = False
                heapq.heappush(events, (start[stage], 4, stage, lane, 0, 0))
    while events:
        now, what, stage, lane, batch, origin = heapq.heappop(events)
        if what == 4:  # its weights are gathered
            idle[stage][lane] = True
        elif what == 2:  # a tensor has come
            heapq.heappush(forward[stage][lane], (batch, origin))
        elif what == 3:  # a gradient has come
            heapq.heappush(backward[stage][lane], (batch, origin))
        else:
            idle[stage][lane] = True
            if what == 0 and stage + 1 < stages:
                to = route[stage + 1][batch][origin]
                heapq.heappush(events, (now + lanes.send, 2, stage + 1, to, batch, origin))
            elif what == 0:
                heapq.heappush(backward[stage][lane], (batch, origin))
            else:
                held[stage][lane] -= 1
                ends[stage] = max(ends[stage], now)
                if stage:
                    to = route[stage - 1][batch][origin]
                    heapq.heappush(events, (now + lanes.send, 3, stage - 1, to, batch, origin))
        begin(stage, lane, now)
    passes = max(end + after for end, after in zip(ends, lanes.after, strict=True))
    return passes + max(lanes.step)


def _routes(alive: Flags, micro_batches: int) -> list[list[list[int]]]:
    """By stage, micro-batch and replica of origin: the replica that it passes the stage on."""
    found = []
    for row in alive:
        left = np.flatnonzero(row).tolist()
        lost = [origin for origin, here in enumerate(row.tolist()) if not here]
        turn = {origin: number for number, origin in enumerate(lost)}
        found.append(
            [
                [
                    origin
                    if origin not in turn
                    else left[(batch * len(lost) + turn[origin]) % len(left)]
                    for origin in range(len(row))
                ]
                for batch in range(micro_batches)
            ]
        )
    return found
