"""The slow twin: every partition, every keep-or-recompute choice, simulated one task at a time.

Written from the contract's words and sharing no code with the solver but the cost types.
"""

from __future__ import annotations

import itertools
import math

from solver.costs.pipeline import Block, PipelineCosts


def block_choices(block: Block, offload_bytes: float = 0.0) -> list[tuple[float, float, float]]:
    """(kept bytes, recompute seconds, recompute bytes) of every subset of needed tensors.

    Of what is kept so many bytes, in any parts, need not be on the device.
    """
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
            held = block.input_bytes + sum(o.output_bytes for o in block.ops if o.name in kept)
            found.append(
                (
                    max(held - offload_bytes, 0.0),
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


def least_recompute(
    costs: PipelineCosts,
    run: tuple[int, ...],
    flight: int,
    offload_bytes: tuple[float, ...] = (),
    staging_bytes: float = 0.0,
) -> float:
    """Least recompute seconds of a stage holding these blocks, over every choice of each block."""
    states = sum(costs.blocks[k].states.total for k in run) + staging_bytes
    away = offload_bytes or (0.0,) * len(costs.blocks)
    if states + sum(costs.blocks[k].update_bytes for k in run) > costs.capacity_bytes:
        return math.inf
    best = math.inf
    choices = {k: block_choices(costs.blocks[k], away[k]) for k in set(run)}
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


def offload_budgets(
    costs: PipelineCosts, in_flight: int, stages: int
) -> tuple[tuple[float, ...], int]:
    """Per kind, the bytes that pass the link to the host while its compute ops run, either way, but
    no more than there are; and the most blocks of a stage. Where the host has no room for all, a
    stage has a quarter more than its even number (or one more), and each block its part."""
    assert costs.host is not None
    found = []
    for block in costs.blocks:
        ops = [op for op in block.ops if op.kind.value == "compute"]
        seconds = min(sum(o.forward_seconds for o in ops), sum(o.backward_seconds for o in ops))
        needed = {t for op in block.ops for t in op.backward_reads} - {"x"}
        everything = block.input_bytes + sum(o.output_bytes for o in block.ops if o.name in needed)
        found.append(min(seconds * costs.host.bytes_per_second, everything))
    most, length = costs.host.memory_bytes, len(costs.sequence)
    if in_flight * sum(found[kind] for kind in costs.sequence) <= most:
        return tuple(found), length
    blocks = max(math.ceil(1.25 * length / stages), math.ceil(length / stages) + 1)
    return tuple(min(one, most / (in_flight * blocks)) for one in found), blocks


def offloading_optimum(costs: PipelineCosts, schedule: str, stages: int) -> float:
    """The least makespan where activations may wait in host memory, and where none do."""
    most = max(in_flight(schedule, s, stages, costs.micro_batches) for s in range(stages))
    budgets, blocks = offload_budgets(costs, most, stages)
    staging = 3 * max(budgets[kind] for kind in costs.sequence)
    there = optimum(costs, schedule, stages, budgets, staging, blocks) if staging else math.inf
    return min(optimum(costs, schedule, stages), there)


def optimum(
    costs: PipelineCosts,
    schedule: str,
    stages: int,
    offload_bytes: tuple[float, ...] = (),
    staging_bytes: float = 0.0,
    most_blocks: float = math.inf,
) -> float:
    """The least makespan over everything; infinite if nothing fits."""
    length, n = len(costs.sequence), costs.micro_batches
    known: dict[tuple[int, tuple[int, ...], int], float] = {}
    best = math.inf
    for cuts in itertools.combinations(range(1, length), stages - 1):
        edges = (0, *cuts, length)
        if max(b - a for a, b in itertools.pairwise(edges)) > most_blocks:
            continue
        forward, backward = [], []
        for s, (a, b) in enumerate(itertools.pairwise(edges)):
            run = tuple(sorted(costs.sequence[a:b]))
            own = costs.at(s)
            key = (s if costs.devices else 0, run, in_flight(schedule, s, stages, n))
            if key not in known:
                known[key] = least_recompute(own, *key[1:], offload_bytes, staging_bytes)
            forward.append(sum(own.blocks[k].forward_seconds for k in run))
            backward.append(sum(own.blocks[k].backward_seconds for k in run) + known[key])
        if math.isinf(sum(backward)):
            continue
        best = min(best, makespan(schedule, forward, backward, n, costs.send_seconds))
    return best


def interleaved_order(device: int, devices: int, chunks: int, n: int) -> list[tuple[str, int, int]]:
    """Megatron-LM's interleaved order of a device: (work, stage, micro-batch)."""
    visits = []
    for start in range(0, n, devices):
        for chunk in range(chunks):
            visits += [(chunk, m) for m in range(start, min(start + devices, n))]
    forwards = [("F", c * devices + device, m) for c, m in visits]
    backwards = [("B", (chunks - 1 - c) * devices + device, m) for c, m in visits]
    ahead = min((devices - device - 1) * 2 + (chunks - 1) * devices, len(visits))
    tasks, waiting = forwards[:ahead], forwards[ahead:]
    for backward in backwards:
        if waiting:
            tasks.append(waiting.pop(0))
        tasks.append(backward)
    return tasks


def interleaved_makespan(
    forward: list[float], backward: list[float], devices: int, n: int, send: float
) -> float:
    """Run every task of an interleaved pipeline as soon as it may."""
    stages = len(forward)
    waiting = [interleaved_order(d, devices, stages // devices, n) for d in range(devices)]
    clock = [0.0] * devices
    end: dict[tuple[str, int, int], float] = {}
    while any(waiting):
        for d in range(devices):
            while waiting[d]:
                work, s, m = waiting[d][0]
                if work == "F":
                    needs = ("F", s - 1, m) if s else None
                else:
                    needs = ("B", s + 1, m) if s < stages - 1 else ("F", s, m)
                if needs is not None and needs not in end:
                    break
                ready = 0.0
                if needs is not None:
                    ready = end[needs] + (send if needs[1] % devices != d else 0.0)
                clock[d] = max(clock[d], ready) + (forward[s] if work == "F" else backward[s])
                end[work, s, m] = clock[d]
                waiting[d].pop(0)
    return max(clock)


def interleaved_optimum(costs: PipelineCosts, devices: int, chunks: int) -> float:
    """The least makespan over every cut and every choice of every block, chunks interleaved."""
    length, n, stages = len(costs.sequence), costs.micro_batches, devices * chunks
    choices = [block_choices(block) for block in costs.blocks]
    orders = [interleaved_order(d, devices, chunks, n) for d in range(devices)]
    best = math.inf
    for cuts in itertools.combinations(range(1, length), stages - 1):
        edges = (0, *cuts, length)
        runs = [costs.sequence[a:b] for a, b in itertools.pairwise(edges)]
        forward = [sum(costs.blocks[k].forward_seconds for k in run) for run in runs]
        plain = [sum(costs.blocks[k].backward_seconds for k in run) for run in runs]
        options = []
        for run in runs:
            found = set()
            for picked in itertools.product(*(choices[k] for k in run)):
                found.add(
                    (
                        sum(seconds for _, seconds, _ in picked),
                        sum(kept for kept, _, _ in picked),
                        max(rebuilt for _, _, rebuilt in picked),
                    )
                )
            options.append(sorted(found))
        per_device = []
        for d in range(devices):
            mine = list(range(d, stages, devices))
            states = sum(costs.blocks[k].states.total for s in mine for k in runs[s])
            fitting = [
                combination
                for combination in itertools.product(*(options[s] for s in mine))
                if states + _sweep(orders[d], dict(zip(mine, combination, strict=True)))
                <= costs.capacity_bytes
            ]
            per_device.append(_least([tuple(c[0] for c in combination) for combination in fitting]))
        for combination in itertools.product(*per_device):
            backward = list(plain)
            for d, seconds in enumerate(combination):
                for chunk, extra in enumerate(seconds):
                    backward[chunk * devices + d] += extra
            if sum(forward) + sum(backward) >= best:
                continue
            best = min(
                best,
                interleaved_makespan(forward, backward, devices, n, costs.send_seconds),
            )
    return best


def _sweep(
    order: list[tuple[str, int, int]], choice: dict[int, tuple[float, float, float]]
) -> float:
    """Most bytes alive at the start of any backward, its stage's buffer included."""
    alive, most = dict.fromkeys(choice, 0), 0.0
    for work, s, _ in order:
        if work == "F":
            alive[s] += 1
        else:
            held = sum(count * choice[at][1] for at, count in alive.items())
            most = max(most, held + choice[s][2])
            alive[s] -= 1
    return most


def _least(vectors: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Vectors that no other is at most in every place."""
    distinct = sorted(set(vectors))
    return [
        v
        for v in distinct
        if not any(w != v and all(a <= b for a, b in zip(w, v, strict=True)) for w in distinct)
    ]
