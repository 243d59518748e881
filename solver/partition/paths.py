"""Paths known in advance: per schedule, those that are critical unless stages are very uneven.

An *own-path* of stage c runs through all or part of c's own chain of tasks; the stages before c
are each crossed by one forward and one backward, those after c by one, two or none of each. With
F, B of stage c, n micro-batches, q = min(p - c, n), k = n - q + 1, before(c) and after(c) the
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

import numpy as np

from solver.schedules import Path, Schedule
from solver.schedules.simulate import Floats


@dataclass(frozen=True, eq=False)
class Family:
    """One own-path per stage; arrays have shape (stages,).

    ``after`` multiplies the sums of F + B over the later stages; ``forward`` and ``backward`` count
    the stage's own work. ``seconds`` is the time of the sends, or minus infinity where the family
    has no path.
    """

    after: int
    forward: Floats
    backward: Floats
    sends: Floats
    seconds: Floats


@dataclass(frozen=True, eq=False)
class OwnPaths:
    """All families of a schedule."""

    families: tuple[Family, ...]

    def paths(self) -> list[Path]:
        """The same paths, each stage by stage."""
        found = []
        for family in self.families:
            stages = len(family.forward)
            for c in range(stages):
                if np.isfinite(family.seconds[c]):
                    forward = [1] * c + [0] + [family.after] * (stages - c - 1)
                    backward = list(forward)
                    forward[c], backward[c] = int(family.forward[c]), int(family.backward[c])
                    sends = int(family.sends[c])
                    found.append(Path(tuple(forward), tuple(backward), sends, first=0, last=0))
        return found


def own_paths(schedule: Schedule, send_seconds: float) -> OwnPaths:
    """The own-paths of every stage of a schedule with one stage per device."""
    p, n = schedule.devices, schedule.micro_batches
    stage = np.arange(p)
    all_of_them = np.full(p, float(n))

    def family(after: int, forward: Floats, backward: Floats, only: Floats) -> Family:
        sends = 2.0 * stage + 2.0 * after * (p - 1 - stage)
        seconds = np.where(only > 0, sends * send_seconds, -np.inf)
        return Family(after, forward, backward, sends, seconds)

    always = np.ones(p)
    if schedule.name == "gpipe":
        return OwnPaths((family(1, all_of_them, all_of_them, always),))
    in_flight = np.minimum(p - stage, n).astype(np.float64)
    rest = n - in_flight + 1
    return OwnPaths(
        (
            family(0, all_of_them, all_of_them, always),
            family(1, rest, all_of_them, always),
            family(1, all_of_them, rest, always),
            family(2, rest, rest, n - in_flight),
        )
    )
