"""Paths known in advance: per schedule, those that are critical unless stages are very uneven.

An *own-path* of stage c runs through all or part of c's own chain of tasks; the stages before c
(and after c) are each crossed by one forward and one backward, or by two of each, or not at all.
With F, B of stage c, n micro-batches, q = min(p - c, n), k = n - q + 1, before(c) and after(c) the
sums of F + B over the other stages, 1F1B has

- before(c) + n (F + B)                        down to c, all of c's chain, back
- before(c) + after(c) + k F + n B             first micro-batch to the end and back, then the chain
- before(c) + after(c) + n F + k B             the chain, then the last micro-batch there and back
- before(c) + 2 after(c) + k (F + B)           both (only if n > q)

and GPipe before(c) + after(c) + n (F + B). They are lower bounds for every partition; on 1F1B
without sends they are the makespan whenever stage times differ by less than about 30 %
(``docs/mathematics.md``).
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.schedules import Path, Schedule


@dataclass(frozen=True)
class OwnPath:
    """A path through one stage: how often it crosses that stage and its neighbours.

    ``before`` and ``after`` multiply the sums of F + B over the earlier and later stages;
    ``forward`` and ``backward`` count the stage's own work.
    """

    stage: int
    before: int
    after: int
    forward: int
    backward: int
    sends: int
    sends_seconds: float

    def path(self, stages: int) -> Path:
        """The same path, stage by stage."""
        crossings = [
            self.before if s < self.stage else self.after if s > self.stage else 0
            for s in range(stages)
        ]
        forward, backward = list(crossings), list(crossings)
        forward[self.stage], backward[self.stage] = self.forward, self.backward
        return Path(tuple(forward), tuple(backward), self.sends, first=0, last=0)


def own_paths(schedule: Schedule, send_seconds: float) -> list[list[OwnPath]]:
    """The own-paths of every stage of a schedule with one stage per device."""
    p, n = schedule.devices, schedule.micro_batches

    def make(c: int, after: int, forward: int, backward: int) -> OwnPath:
        sends = 2 * c + 2 * after * (p - 1 - c)
        return OwnPath(c, 1, after, forward, backward, sends, sends * send_seconds)

    if schedule.name == "gpipe":
        return [[make(c, 1, n, n)] for c in range(p)]
    paths = []
    for c in range(p):
        q = min(p - c, n)
        k = n - q + 1
        own = [make(c, 0, n, n), make(c, 1, k, n), make(c, 1, n, k)]
        if n > q:
            own.append(make(c, 2, k, k))
        paths.append(own)
    return paths
