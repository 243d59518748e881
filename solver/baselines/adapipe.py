"""AdaPipe: a knapsack per stage, and a three-phase recurrence over the cuts.

Sun et al., "AdaPipe: Optimizing Pipeline Parallelism with Adaptive Recomputation and Partitioning",
ASPLOS 2024. Each computation unit of a stage keeps its tensors or runs again, at its own forward
time: a 0/1 knapsack of saved time against memory, units taken as independent and a buffer set aside
for one whole layer. The cuts are chosen
from the last stage backwards by the time that 1F1B would take if its three phases never met::

    W = F + max(W' + B', (p - s - 1) F)     first forward to first backward (warm-up)
    E = B + max(E' + F', (p - s - 1) B)     last forward to last backward (cool-down)
    M = max(M', F + B)                      steady phase
    T = W + E + (n - p) M

primes marking the next stage. The recurrence is a lower bound of the makespan, not the makespan
(``docs/mathematics.md``); what AdaPipe chooses is simulated exactly here, on the true costs of what
its choices make run again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from solver.baselines.stage_table import StageTable, cuts_from, stage_table
from solver.costs.pipeline import Block, PipelineCosts
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Part
from solver.partition.stages import Stage, stages_at
from solver.recompute.choice import choice_keeping, needed_tensors
from solver.recompute.frontier import Frontier, frontier
from solver.recompute.policies import least_memory
from solver.schedules import Schedule


def adapipe(costs: PipelineCosts, schedule: Schedule) -> tuple[Stage, ...] | None:
    """The stages that AdaPipe would choose; None if nothing fits."""
    buffered = replace(costs, blocks=tuple(_buffered(block) for block in costs.blocks))
    menu = FreeMenu(buffered, tuple(_independent(block) for block in costs.blocks))
    cuts = _cuts(stage_table(costs, menu, schedule), schedule.micro_batches)
    if not cuts:
        return None
    stages = stages_at(costs, menu, schedule, cuts)
    if stages is None:
        return None
    return tuple(
        Stage(s.start, s.stop, tuple(_as_run(costs.blocks[p.kind], p) for p in s.parts))
        for s in stages
    )


@lru_cache(maxsize=256)
def _independent(block: Block) -> Frontier:
    """The knapsack's choices: every needed tensor at its own op's time, the buffer apart."""
    needed = needed_tensors(block)
    ops = tuple(
        replace(op, inputs=("x",), backward_reads=(op.name,))
        for op in block.ops
        if op.name in needed
    )
    found = frontier(replace(block, ops=ops))
    return replace(found, rebuilt=np.zeros_like(found.rebuilt))


def _buffered(block: Block) -> Block:
    """The block with a buffer for all of its tensors, whatever is kept."""
    rebuilt = least_memory(block).recompute_bytes
    return replace(block, working_bytes=block.working_bytes + rebuilt)


def _as_run(block: Block, part: Part) -> Part:
    """The choice with all that it makes run again."""
    kept = needed_tensors(block).difference(part.choice.recomputed)
    return replace(part, choice=choice_keeping(block, kept))


def _cuts(table: StageTable, micro_batches: int) -> tuple[tuple[int, int], ...]:
    """The recurrence, every stage and start at once; () if nothing fits."""
    p, width = table.stages, table.forward.shape[1]
    rows = np.arange(width)
    nothing = np.full(width, np.inf)
    warm_up, cool_down, steady = nothing, nothing, nothing
    ahead_forward, ahead_backward = nothing, nothing
    next_stop = []
    for s in reversed(range(p)):
        forward, backward = table.forward[s], table.backward[s]
        fits = table.candidates.alive[s] & np.isfinite(backward)
        if s == p - 1:
            w, e, m = forward, backward, forward + backward
        else:
            w = forward + np.maximum(warm_up + ahead_backward, (p - s - 1) * forward)
            e = backward + np.maximum(cool_down + ahead_forward, (p - s - 1) * backward)
            m = np.maximum(steady, forward + backward)
        left = max(micro_batches - (p - s), 0)
        total = np.where(fits, w + e + left * np.where(np.isfinite(m), m, 0.0), np.inf)
        stop = np.argmin(total, axis=1)
        next_stop.append(stop)
        best = np.isfinite(total[rows, stop])
        warm_up = np.where(best, w[rows, stop], np.inf)
        cool_down = np.where(best, e[rows, stop], np.inf)
        steady = np.where(best, m[rows, stop], np.inf)
        ahead_forward = np.where(best, forward[rows, stop], np.inf)
        ahead_backward = np.where(best, backward[rows, stop], np.inf)
    if not np.isfinite(warm_up[0]):
        return ()
    return cuts_from(table, next_stop[::-1])
