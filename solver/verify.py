"""The independent check of an answer: its time and memory derived again, from the cost types alone.

Nothing here is shared with the optimisation, the simulator or the sweep: the schedule's order is
written out once more from its definition, tasks run one at a time, and what a block recomputes is
derived from the names in the answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from solver.costs.pipeline import Block, PipelineCosts
from solver.errors import SolverFailed
from solver.plan import Stage

TOLERANCE = 1e-9
"""Relative difference that rounding may cause between two ways of adding the same numbers."""


@dataclass(frozen=True)
class Checked:
    """Makespan and per-stage peak bytes, as derived by the check."""

    iteration_seconds: float
    peak_memory_bytes: tuple[float, ...]


def verify(
    costs: PipelineCosts, schedule: str, stages: list[Stage], iteration_seconds: float, fits: bool
) -> Checked:
    """Derive an answer again and compare.

    Args:
        costs: The costs that the answer was computed from.
        schedule: ``gpipe`` or ``1f1b``, one stage per device.
        stages: The answer's stages, in order.
        iteration_seconds: The answer's claim.
        fits: The answer's claim.

    Raises:
        SolverFailed: If a claim does not hold; the answer must not be given.
    """
    _check_cover(costs, stages)
    forward, backward, peaks = [], [], []
    gathered, reduced, updated = [], [], []
    for position, stage in enumerate(stages):
        flight = _in_flight(schedule, position, len(stages), costs.micro_batches)
        seconds, plain, rerun, peak = _stage(costs, stage, flight)
        forward.append(seconds)
        backward.append(plain + rerun)
        peaks.append(peak)
        blocks = _blocks(costs, stage)
        exposed = sum(b.gradient_seconds for b in blocks) - costs.gradient_overlap * plain
        reduced.append(max(exposed, 0.0))
        exposed = sum(b.gather_seconds for b in blocks) - costs.gather_overlap * seconds
        gathered.append(max(exposed, 0.0))
        updated.append(sum(b.optimizer_seconds for b in blocks))
    ends = _run(schedule, forward, backward, gathered, costs.micro_batches, costs.send_seconds)
    total = max(end + tail for end, tail in zip(ends, reduced, strict=True))
    total += max(updated) + costs.fixed_seconds
    _compare("iteration_seconds", iteration_seconds, total)
    for position, (stage, peak) in enumerate(zip(stages, peaks, strict=True)):
        _compare(f"stages[{position}].peak_memory_bytes", stage.peak_memory_bytes, peak)
    if fits != (max(peaks) <= costs.capacity_bytes * (1 + TOLERANCE)):
        raise SolverFailed(f"The answer says fits = {fits}; its stages say otherwise.")
    return Checked(total, tuple(peaks))


def _compare(name: str, claimed: float, derived: float) -> None:
    if abs(claimed - derived) > TOLERANCE * max(abs(claimed), abs(derived)):
        raise SolverFailed(f"The check derives {name} = {derived!r}, the answer says {claimed!r}.")


def _check_cover(costs: PipelineCosts, stages: list[Stage]) -> None:
    held = [name for stage in stages for name, count in stage.blocks for _ in range(count)]
    if held != [costs.blocks[kind].name for kind in costs.sequence]:
        raise SolverFailed("The stages do not hold the model's blocks in their order.")
    for stage in stages:
        here: dict[str, int] = defaultdict(int)
        for name, count in stage.blocks:
            here[name] += count
        decided: dict[str, int] = defaultdict(int)
        for entry in stage.recompute:
            decided[entry.block] += entry.count
        if here != decided or not here:
            raise SolverFailed(f"Stage {stage.index} does not decide each of its blocks once.")


def _blocks(costs: PipelineCosts, stage: Stage) -> list[Block]:
    named = {block.name: block for block in costs.blocks}
    return [named[name] for name, count in stage.blocks for _ in range(count)]


def _stage(costs: PipelineCosts, stage: Stage, flight: int) -> tuple[float, float, float, float]:
    """Forward, backward and recompute seconds of a stage, and its peak bytes."""
    named = {block.name: block for block in costs.blocks}
    seconds = plain = rerun = kept = buffer = 0.0
    states = sum(block.states.total for block in _blocks(costs, stage))
    for entry in stage.recompute:
        block = named[entry.block]
        seconds += entry.count * sum(op.forward_seconds for op in block.ops)
        plain += entry.count * sum(op.backward_seconds for op in block.ops)
        again, held, rebuilt = _block(block, frozenset(entry.recomputed))
        if entry.whole and block.rerun_seconds is not None:
            again = max(again, block.rerun_seconds)
        rerun += entry.count * again
        together = min(entry.group, entry.count)
        kept += math.ceil(entry.count / entry.group) * held
        rebuilt = together * rebuilt + (together - 1) * block.input_bytes
        buffer = max(buffer, rebuilt + block.working_bytes)
    return seconds, plain, rerun, states + flight * kept + buffer + costs.reserved_bytes


def _block(block: Block, recomputed: frozenset[str]) -> tuple[float, float, float]:
    """Recompute seconds, kept bytes and rebuilt bytes of a block that recomputes these tensors.

    Raises:
        SolverFailed: If a rebuilt tensor lacks an input, or an unknown tensor is named.
    """
    ops = {op.name: op for op in block.ops}
    needed = {name for op in block.ops for name in op.backward_reads} - {"x"}
    kept = needed - recomputed
    for name in recomputed:
        if name not in ops:
            raise SolverFailed(f"Block '{block.name}' has no tensor '{name}'.")
        for source in ops[name].inputs:
            if source != "x" and source not in kept and source not in recomputed:
                raise SolverFailed(f"'{name}' of '{block.name}' lacks its input '{source}'.")
    return (
        sum(ops[name].forward_seconds for name in recomputed),
        block.input_bytes + sum(ops[name].output_bytes for name in kept),
        sum(ops[name].output_bytes for name in recomputed),
    )


def _in_flight(schedule: str, stage: int, stages: int, micro_batches: int) -> int:
    return micro_batches if schedule == "gpipe" else min(stages - stage, micro_batches)


def _order(schedule: str, stage: int, stages: int, n: int) -> list[tuple[str, int]]:
    if schedule == "gpipe":
        return [("F", m) for m in range(n)] + [("B", m) for m in range(n)]
    ahead = min(stages - stage, n)
    order = [("F", m) for m in range(ahead)]
    for m in range(n):
        order.append(("B", m))
        if m + ahead < n:
            order.append(("F", m + ahead))
    return order


def _run(
    schedule: str,
    forward: list[float],
    backward: list[float],
    gathered: list[float],
    n: int,
    send: float,
) -> list[float]:
    """When each stage's last task ends, every task run as soon as it may."""
    stages = len(forward)
    orders = [_order(schedule, stage, stages, n) for stage in range(stages)]
    place = [0] * stages
    clock = list(gathered)
    ends: dict[tuple[str, int, int], float] = {}
    ready = list(range(stages))
    while ready:
        stage = ready.pop()
        while place[stage] < len(orders[stage]):
            work, m = orders[stage][place[stage]]
            if work == "F":
                needs, travel = (("F", stage - 1, m), send) if stage else (None, 0.0)
            elif stage < stages - 1:
                needs, travel = ("B", stage + 1, m), send
            else:
                needs, travel = ("F", stage, m), 0.0
            if needs is not None and needs not in ends:
                break
            start = clock[stage] if needs is None else max(clock[stage], ends[needs] + travel)
            clock[stage] = start + (forward[stage] if work == "F" else backward[stage])
            ends[work, stage, m] = clock[stage]
            place[stage] += 1
            for neighbour in (stage - 1, stage + 1):
                if 0 <= neighbour < stages and neighbour not in ready:
                    ready.append(neighbour)
    if any(at < len(order) for at, order in zip(place, orders, strict=True)):
        raise SolverFailed(f"The order of '{schedule}' deadlocks.")
    return clock
