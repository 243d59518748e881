"""The slow twin: every partition, every keep-or-recompute choice, simulated one task at a time.

Written from the contract's words and sharing no code with the solver but the cost types.
"""

from __future__ import annotations

import itertools
import math

from solver.costs.pipeline import Block, PipelineCosts


def block_choices(block: Block) -> list[tuple[float, float, float]]:
    """(kept bytes, recompute seconds, recompute bytes) of every subset of needed tensors."""
    needed = sorted({t for op in block.ops for t in op.backward_reads} - {"x"})
    found = []
    for size in range(len(needed) + 1):
        for kept in itertools.combinations(needed, size):
            rerun: set[str] = set()
            for op in reversed(block.ops):
                wanted = op.name in needed or any(
                    op.name in other.inputs for other in block.ops if other.name in rerun
                )
                if wanted and op.name not in kept:
                    rerun.add(op.name)
            found.append(
                (
                    block.input_bytes + sum(o.output_bytes for o in block.ops if o.name in kept),
                    sum(o.forward_seconds for o in block.ops if o.name in rerun),
                    sum(o.output_bytes for o in block.ops if o.name in rerun),
                )
            )
    return found


def order(schedule: str, stage: int, stages: int, n: int) -> list[tuple[str, int]]:
    """The fixed order of a stage's passes, from the definition of the schedule."""
    if schedule == "gpipe":
        return [("F", m) for m in range(n)] + [("B", m) for m in range(n)]
    ahead = min(stages - stage, n)
    tasks = [("F", m) for m in range(ahead)]
    for m in range(n):
        tasks.append(("B", m))
        if ahead + m < n:
            tasks.append(("F", ahead + m))
    return tasks


def makespan(
    schedule: str, forward: list[float], backward: list[float], n: int, send: float
) -> float:
    """Run every task as soon as it may, stage by stage in turn."""
    stages = len(forward)
    waiting = [order(schedule, s, stages, n) for s in range(stages)]
    clock = [0.0] * stages
    end: dict[tuple[str, int, int], float] = {}
    while any(waiting):
        for s in range(stages):
            while waiting[s]:
                work, m = waiting[s][0]
                if work == "F":
                    needs = ("F", s - 1, m) if s else None
                else:
                    needs = ("B", s + 1, m) if s < stages - 1 else ("F", s, m)
                if needs is not None and needs not in end:
                    break
                ready = 0.0
                if needs is not None:
                    ready = end[needs] + (send if needs[1] != s else 0.0)
                clock[s] = max(clock[s], ready) + (forward[s] if work == "F" else backward[s])
                end[work, s, m] = clock[s]
                waiting[s].pop(0)
    return max(clock)


def in_flight(schedule: str, stage: int, stages: int, n: int) -> int:
    return n if schedule == "gpipe" else min(stages - stage, n)


def least_recompute(costs: PipelineCosts, run: tuple[int, ...], flight: int) -> float:
    """Least recompute seconds of a stage holding these blocks, over every choice of each block."""
    states = sum(costs.blocks[k].states.total for k in run)
    best = math.inf
    choices = {k: block_choices(costs.blocks[k]) for k in set(run)}
    parts = [
        itertools.combinations_with_replacement(choices[k], run.count(k)) for k in sorted(set(run))
    ]
    for picked in itertools.product(*parts):
        flat = [choice for part in picked for choice in part]
        used = (
            states
            + flight * sum(kept for kept, _, _ in flat)
            + max(rebuilt for _, _, rebuilt in flat)
        )
        if used <= costs.capacity_bytes:
            best = min(best, sum(seconds for _, seconds, _ in flat))
    return best


def optimum(costs: PipelineCosts, schedule: str, stages: int) -> float:
    """The least makespan over everything; infinite if nothing fits."""
    length, n = len(costs.sequence), costs.micro_batches
    known: dict[tuple[tuple[int, ...], int], float] = {}
    best = math.inf
    for cuts in itertools.combinations(range(1, length), stages - 1):
        edges = (0, *cuts, length)
        forward, backward = [], []
        for s, (a, b) in enumerate(itertools.pairwise(edges)):
            run = tuple(sorted(costs.sequence[a:b]))
            key = (run, in_flight(schedule, s, stages, n))
            if key not in known:
                known[key] = least_recompute(costs, *key)
            forward.append(sum(costs.blocks[k].forward_seconds for k in run))
            backward.append(sum(costs.blocks[k].backward_seconds for k in run) + known[key])
        if math.isinf(sum(backward)):
            continue
        best = min(best, makespan(schedule, forward, backward, n, costs.send_seconds))
    return best
