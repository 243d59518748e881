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
from solver.verify_places import check_places, places_anything

TOLERANCE = 1e-9
"""Relative difference that rounding may cause between two ways of adding the same numbers."""


@dataclass(frozen=True)
class Checked:
    """Makespan and per-stage peak bytes, as derived by the check."""

    iteration_seconds: float
    peak_memory_bytes: tuple[float, ...]


def verify(
    costs: PipelineCosts,
    schedule: str,
    devices: int,
    stages: list[Stage],
    iteration_seconds: float,
    fits: bool,
    group: int = 0,
) -> Checked:
    """Derive an answer again and compare.

    Args:
        costs: The costs that the answer was computed from.
        schedule: ``gpipe`` or ``1f1b``; over several stages per device the interleaved one.
        devices: Pipeline-parallel size; stage i stands on device i mod that.
        stages: The answer's stages, in model order.
        iteration_seconds: The answer's claim.
        fits: The answer's claim.
        group: Micro-batches that an interleaved schedule takes through a chunk in a row; 0: as
            many as devices.

    Raises:
        SolverFailed: If a claim does not hold; the answer must not be given.
    """
    _check_cover(costs, stages)
    derived = [_stage(costs.at(at % devices), stage) for at, stage in enumerate(stages)]
    orders = [
        _order(schedule, device, devices, len(stages) // devices, costs.micro_batches, group)
        for device in range(devices)
    ]
    ends = _run(orders, derived, costs.send_seconds)
    total = max(end + stage.reduced for end, stage in zip(ends, derived, strict=True))
    steps = [sum(stage.updated for stage in derived[device::devices]) for device in range(devices)]
    total += max(steps) + costs.fixed_seconds
    _compare("iteration_seconds", iteration_seconds, total)
    peaks = [
        _peak(order, derived) + costs.at(device).reserved_bytes
        for device, order in enumerate(orders)
    ]
    for position, stage in enumerate(stages):
        name = f"stages[{position}].peak_memory_bytes"
        _compare(name, stage.peak_memory_bytes, peaks[position % devices])
    limits = [costs.at(device).capacity_bytes * (1 + TOLERANCE) for device in range(devices)]
    if fits != all(peak <= limit for peak, limit in zip(peaks, limits, strict=True)):
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


@dataclass(frozen=True)
class _Derived:
    """What one stage costs: seconds of a micro-batch and of the iteration, and bytes."""

    forward: float
    backward: float
    gathered: float
    reduced: float
    updated: float
    states: float
    kept: float
    buffer: float


def _stage(costs: PipelineCosts, stage: Stage) -> _Derived:
    named = {block.name: block for block in costs.blocks}
    blocks = _blocks(costs, stage)
    forward = plain = rerun = kept = buffer = 0.0
    for entry in stage.recompute:
        block = named[entry.block]
        forward += entry.count * sum(op.forward_seconds for op in block.ops)
        plain += entry.count * sum(op.backward_seconds for op in block.ops)
        again, held, rebuilt = _block(block, frozenset(entry.recomputed))
        if entry.whole and block.rerun_seconds is not None:
            again = max(again, block.rerun_seconds)
        rerun += entry.count * again
        together = min(entry.group, entry.count)
        kept += math.ceil(entry.count / entry.group) * held
        rebuilt = together * rebuilt + (together - 1) * block.input_bytes
        buffer = max(buffer, rebuilt + block.working_bytes)
    if places_anything(stage):
        places = check_places(costs, stage)
        rerun += places.charged - places.hidden
        buffer = places.buffer
        _compare(f"stage {stage.index}, hidden", stage.hidden_recompute_seconds, places.hidden)
    gathered = sum(b.gather_seconds for b in blocks) - costs.gather_overlap * forward
    reduced = sum(b.gradient_seconds for b in blocks) - costs.gradient_overlap * plain
    return _Derived(
        forward=forward,
        backward=plain + rerun,
        gathered=max(gathered, 0.0),
        reduced=max(reduced, 0.0),
        updated=sum(b.optimizer_seconds for b in blocks),
        states=sum(b.states.total for b in blocks),
        kept=kept,
        buffer=buffer,
    )


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


_Task = tuple[str, int, int]
"""("F" or "B", stage, micro-batch)."""


def _order(
    schedule: str, device: int, devices: int, chunks: int, n: int, group: int
) -> list[_Task]:
    """The fixed order of one device."""
    size = group or devices
    if schedule == "gpipe":
        return [("F", device, m) for m in range(n)] + [("B", device, m) for m in range(n)]
    if chunks == 1:
        ahead = min(devices - device, n) - 1
        forwards = [("F", device, m) for m in range(n)]
        backwards = [("B", device, m) for m in range(n)]
    else:
        ahead = min(2 * (devices - device - 1) + (chunks - 1) * size, n * chunks)
        groups = [range(start, min(start + size, n)) for start in range(0, n, size)]
        places = [(chunk, m) for group in groups for chunk in range(chunks) for m in group]
        forwards = [("F", chunk * devices + device, m) for chunk, m in places]
        backwards = [("B", (chunks - 1 - chunk) * devices + device, m) for chunk, m in places]
    order = forwards[:ahead]
    for turn, backward in enumerate(backwards):
        if ahead + turn < len(forwards):
            order.append(forwards[ahead + turn])
        order.append(backward)
    return order


def _run(orders: list[list[_Task]], stages: list[_Derived], send: float) -> list[float]:
    """When each stage's last task ends, every task run as soon as it may."""
    devices, last = len(orders), len(stages) - 1
    place, clock = [0] * devices, [0.0] * devices
    ends: dict[_Task, float] = {}
    final = [0.0] * len(stages)
    ready = list(range(devices))
    while ready:
        device = ready.pop()
        while place[device] < len(orders[device]):
            work, stage, m = task = orders[device][place[device]]
            needs: _Task | None = None
            if work == "F" and stage > 0:
                needs = ("F", stage - 1, m)
            elif work == "B":
                needs = ("B", stage + 1, m) if stage < last else ("F", stage, m)
            if needs is not None and needs not in ends:
                break
            start = clock[device]
            if needs is not None:
                start = max(start, ends[needs] + (send if needs[1] % devices != device else 0.0))
            if work == "F" and m == 0:
                start = max(start, stages[stage].gathered)
            clock[device] = start + (
                stages[stage].forward if work == "F" else stages[stage].backward
            )
            ends[task] = final[stage] = clock[device]
            place[device] += 1
            for neighbour in ((device - 1) % devices, (device + 1) % devices):
                if neighbour not in ready and neighbour != device:
                    ready.append(neighbour)
    if any(at < len(order) for at, order in zip(place, orders, strict=True)):
        raise SolverFailed("The order of the schedule deadlocks.")
    return final


def _peak(order: list[_Task], stages: list[_Derived]) -> float:
    """States, and the most that any backward of this device finds alive, its buffer included."""
    alive: dict[int, int] = dict.fromkeys((stage for _, stage, _ in order), 0)
    most = 0.0
    for work, stage, _ in order:
        if work == "F":
            alive[stage] += 1
            continue
        held = sum(count * stages[at].kept for at, count in alive.items())
        most = max(most, held + stages[stage].buffer)
        alive[stage] -= 1
    return most + sum(stages[stage].states for stage in alive)
