"""Why a layout lost: the part of the iteration in which it falls behind the winner most.

Parts are compared as they stand before any recompute: work of the blocks and their communication,
per device, and the bubble of an even split. What remains of the distance is recompute, which memory
asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.costs.pipeline import Account, PipelineCosts
from solver.layouts import Layout
from solver.plan import LostBy
from solver.search.outcome import Found, Loser


@dataclass(frozen=True)
class _Parts:
    compute: float
    communication: float
    bubble: float

    @property
    def total(self) -> float:
        return self.compute + self.communication + self.bubble


def lost_by(loser: Loser, costs: PipelineCosts, winner: Found) -> LostBy:
    """The reason; open where the bound alone does not tell the two apart."""
    seconds = loser.makespan or loser.lower_bound
    best = winner.partition.makespan
    if seconds < best:
        return LostBy.OPEN
    theirs, ours = _parts(loser.layout, costs), _parts(winner.layout, winner.costs)
    behind = {
        LostBy.COMPUTE: theirs.compute - ours.compute,
        LostBy.COMMUNICATION: theirs.communication - ours.communication,
        LostBy.BUBBLE: theirs.bubble - ours.bubble,
        LostBy.MEMORY: (seconds - theirs.total) - (best - ours.total),
    }
    return max(behind, key=lambda reason: behind[reason])


def _parts(layout: Layout, costs: PipelineCosts) -> _Parts:
    compute = communication = 0.0
    for kind in costs.sequence:
        for op in costs.blocks[kind].ops:
            seconds = op.forward_seconds + op.backward_seconds
            if op.account is Account.COMPUTE:
                compute += seconds
            else:
                communication += seconds
    devices, n = layout.pipeline_parallel, costs.micro_batches
    idle = (devices - 1) / layout.virtual_stages / devices
    passes = n / devices
    return _Parts(passes * compute, passes * communication, idle * (compute + communication))
