"""Paths known in advance: per schedule, those that are critical unless stages are very uneven.

An *own-path* of stage c runs through all or part of c's own chain of tasks; the stages before c
are each crossed by one forward and one backward, those after c by one, two or none of each. With
F, B of stage c, n micro-batches, q = min(p - c, n), k = n - q + 1, before(c) and after(c) the
sums of F + B over the other stages, 1F1B has

- before(c) + n (F + B)                        down to c, all of c's chain, back
- before(c) + after(c) + k F + n B             first micro-batch to the end and back, then the chain
- before(c) + after(c) + n F + k B             the chain, then the last micro-batch there and back
- before(c) + 2 after(c) + k (F + B)           both (only if n > q)

and GPipe before(c) + after(c) + n (F + B). ZB-H1 has those of 1F1B with the gradients of weights W
that stand between: before the last B of stage c there are n - 1 - c of them, before its last F
n - q - c, and the first stage adds its last one at the end. It also has paths that end on stage c,
which come down to it by forwards alone:

- forwards before c + n (F + B + W)
- forwards before c + after(c) + k F + n (B + W)

They are lower bounds for every partition; on 1F1B
without sends they are the makespan whenever stage times differ by less than about 30 %
(``docs/mathematics.md``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.schedules import Path, Schedule, Work
from solver.schedules.simulate import Floats


@dataclass(frozen=True, eq=False)
class Family:
    """One own-path per stage; arrays have shape (stages,).

    ``after`` multiplies the sums of F + B over the later stages; ``forward`` and ``backward`` count
    the stage's own work, ``weight`` its gradients of weights. ``seconds`` is the time of the sends,
    or minus infinity where the family has no path. Paths that do not ``return`` to the first stage
    cross the earlier stages by a forward only.
    ``recompute`` counts the stage's own recompute ahead of backward, where there is any: not where
    the path comes to a backward from the stage behind it.
    """

    after: int
    forward: Floats
    backward: Floats
    sends: Floats
    seconds: Floats
    weight: Floats
    returns: bool = True
    recompute: Floats | None = None


@dataclass(frozen=True, eq=False)
class OwnPaths:
    """All families of a schedule.

    ``first_weight``: paths that return end with so many gradients of weights of the first stage,
    beside those that ``Family.weight`` counts there. ``micro_batches`` pass each stage.
    ``send_seconds``: of one send.
    """

    families: tuple[Family, ...]
    micro_batches: int
    first_weight: int = 0
    send_seconds: float = 0.0

    def paths(self) -> list[Path]:
        """The same paths, each stage by stage."""
        return [
            self._path(family, c, len(family.forward))
            for family in self.families
            for c in np.flatnonzero(np.isfinite(family.seconds)).tolist()
        ]

    def _path(self, family: Family, c: int, stages: int) -> Path:
        forward = [1] * c + [0] + [family.after] * (stages - c - 1)
        backward = [int(family.returns)] * c + forward[c:]
        forward[c], backward[c] = int(family.forward[c]), int(family.backward[c])
        weight = [0] * stages
        weight[c] = int(family.weight[c])
        weight[0] += self.first_weight * family.returns
        return Path(
            tuple(forward),
            tuple(backward),
            int(family.sends[c]),
            first=0,
            last=0 if family.returns else c,
            weight=tuple(weight) if any(weight) else (),
            recompute=_only(c, family.recompute),
        )


def _only(stage: int, times: Floats | None) -> tuple[int, ...]:
    if times is None:
        return ()
    return tuple(int(times[at]) if at == stage else 0 for at in range(len(times)))


def own_paths(schedule: Schedule, send_seconds: float) -> OwnPaths:
    """The own-paths of every stage of a schedule with one stage per device."""
    p, n = schedule.devices, schedule.micro_batches
    stage = np.arange(p)
    all_of_them = np.full(p, float(n))

    ahead = Work.RECOMPUTE in schedule.work

    def family(
        after: int,
        forward: Floats,
        backward: Floats,
        only: Floats,
        weight: Floats | None = None,
        returns: bool = True,
        recompute: Floats | None = None,
    ) -> Family:
        sends = (1.0 + returns) * stage + 2.0 * after * (p - 1 - stage)
        seconds = np.where(only > 0, sends * send_seconds, -np.inf)
        none = np.zeros(p)
        return Family(
            after,
            forward,
            backward,
            sends,
            seconds,
            none if weight is None else weight,
            returns,
            recompute if ahead else None,
        )

    always = np.ones(p)
    if schedule.name == "gpipe":
        through = family(1, all_of_them, all_of_them, always, recompute=all_of_them - 1)
        alone = family(0, all_of_them, all_of_them, always, recompute=all_of_them)
        families = (through, alone) if ahead else (through,)
        return OwnPaths(families, n, send_seconds=send_seconds)
    in_flight = np.minimum(p - stage, n).astype(np.float64)
    rest = n - in_flight + 1
    if schedule.splits_backward:
        before_last = np.maximum(n - 1.0 - stage, 0.0)
        between = np.maximum(n - in_flight - stage, 0.0)
        return OwnPaths(
            (
                family(0, all_of_them, all_of_them, always, before_last),
                family(1, rest, all_of_them, always, before_last),
                family(1, all_of_them, rest, always, between),
                family(2, rest, rest, n - in_flight, between),
                family(0, all_of_them, all_of_them, always, all_of_them, returns=False),
                family(1, rest, all_of_them, always, all_of_them, returns=False),
            ),
            n,
            first_weight=1,
        )
    return OwnPaths(
        (
            family(0, all_of_them, all_of_them, always, recompute=all_of_them),
            family(1, rest, all_of_them, always, recompute=all_of_them - 1),
            family(1, all_of_them, rest, always, recompute=rest - 1),
            family(2, rest, rest, n - in_flight, recompute=rest - 2),
        ),
        n,
        send_seconds=send_seconds,
    )
