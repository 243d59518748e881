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
from solver.verify_offload import check_hosts, check_times, offloaded_bytes
from solver.verify_orders import Task, device_of, order_of
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
        schedule: A request's word for it; ``1f1b`` over several stages per device is the
            interleaved one.
        devices: Pipeline-parallel size.
        stages: The answer's stages, in model order; of a schedule that holds the model twice, those
            of one copy after those of the other.
        iteration_seconds: The answer's claim.
        fits: The answer's claim.
        group: Micro-batches that an interleaved schedule takes through a chunk in a row; 0: as
            many as devices.

    Raises:
        SolverFailed: If a claim does not hold; the answer must not be given.
    """
    copies = 2 if schedule == "chimera" else 1
    depth = len(stages) // copies
    for copy in range(copies):
        _check_cover(costs, stages[copy * depth : (copy + 1) * depth])
    if [stage.blocks for stage in stages[:depth]] != [stage.blocks for stage in stages[-depth:]]:
        raise SolverFailed("The two copies of the model are not cut alike.")
    places = [device_of(schedule, position, devices) for position in range(len(stages))]
    derived = [
        _stage(costs.at(device), schedule, stage)
        for device, stage in zip(places, stages, strict=True)
    ]
    orders = [
        order_of(schedule, device, devices, len(stages) // devices, costs.micro_batches, group)
        for device in range(devices)
    ]
    orders = [_with_recompute(order, derived) for order in orders]
    ends = _run(schedule, orders, derived, depth, costs.send_seconds)
    total = max(end + stage.reduced for end, stage in zip(ends, derived, strict=True))
    steps = [0.0] * devices
    for place, own in zip(places, derived, strict=True):
        steps[place] += own.updated
    total += max(steps) + costs.fixed_seconds
    _compare("iteration_seconds", iteration_seconds, total)
    check_hosts(costs, orders, [stage.away for stage in derived], depth)
    peaks = [
        _peak(order, derived) + costs.at(device).reserved_bytes
        for device, order in enumerate(orders)
    ]
    for position, stage in enumerate(stages):
        name = f"stages[{position}].peak_memory_bytes"
        _compare(name, stage.peak_memory_bytes, peaks[places[position]])
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

    seconds: dict[str, float]
    gathered: float
    reduced: float
    updated: float
    states: float
    stepping: float
    working: float
    kept: float
    waiting: float
    buffer: float
    splits: bool
    ahead: float = 0.0
    away: float = 0.0


def _stage(costs: PipelineCosts, schedule: str, stage: Stage) -> _Derived:
    named = {block.name: block for block in costs.blocks}
    blocks = _blocks(costs, stage)
    splits = schedule in ("zb-h1", "zb-v")
    forward = plain = weights = rerun = kept = waiting = buffer = charged = away = 0.0
    for entry in stage.recompute:
        block = named[entry.block]
        forward += entry.count * sum(op.forward_seconds for op in block.ops)
        plain += entry.count * sum(op.backward_seconds for op in block.ops)
        if splits:
            weights += entry.count * sum(op.weight_seconds for op in block.ops)
            waiting += entry.count * sum(op.weight_held_bytes for op in block.ops)
        again, held, rebuilt = _block(
            block, frozenset(entry.recomputed), frozenset(entry.repeated), entry.shares
        )
        if entry.whole and block.rerun_seconds is not None:
            again = max(again, block.rerun_seconds)
        offloaded = offloaded_bytes(costs, block, entry)
        held -= offloaded
        away += entry.count * offloaded
        rerun += entry.count * again
        together = min(entry.group, entry.count)
        kept += math.ceil(entry.count / entry.group) * held
        rebuilt = together * rebuilt + (together - 1) * block.input_bytes
        buffer = max(buffer, rebuilt + block.working_bytes)
    check_times(costs, stage)
    if places_anything(stage):
        places = check_places(costs, stage)
        charged = places.charged
        rerun += charged - places.hidden
        buffer = places.buffer
        _compare(f"stage {stage.index}, hidden", stage.hidden_recompute_seconds, places.hidden)
    ahead = 0.0
    if stage.recomputes_ahead:
        ahead, buffer = rerun - charged, _gathered(costs, stage)
        _compare(f"stage {stage.index}, ahead", stage.ahead_seconds, ahead)
    gathered = sum(b.gather_seconds for b in blocks) - costs.gather_overlap * forward
    reduced = sum(b.gradient_seconds for b in blocks) - costs.gradient_overlap * plain
    return _Derived(
        seconds={"F": forward, "B": plain - weights + rerun - ahead, "W": weights, "R": ahead},
        gathered=max(gathered, 0.0),
        reduced=max(reduced, 0.0),
        updated=sum(b.optimizer_seconds for b in blocks),
        states=sum(b.states.total for b in blocks),
        stepping=sum(b.update_bytes for b in blocks),
        working=max(b.working_bytes for b in blocks),
        kept=kept,
        waiting=waiting,
        buffer=buffer,
        splits=splits,
        ahead=ahead,
        away=away,
    )


def _gathered(costs: PipelineCosts, stage: Stage) -> float:
    """What all blocks of a stage rebuild, and the temporaries of one."""
    named = {block.name: block for block in costs.blocks}
    total = 0.0
    for entry in stage.recompute:
        sizes = {op.name: op.output_bytes for op in named[entry.block].ops}
        total += entry.count * sum(sizes[name] for name in entry.recomputed)
    return total + max(named[entry.block].working_bytes for entry in stage.recompute)


def _block(
    block: Block,
    recomputed: frozenset[str],
    repeated: frozenset[str],
    shares: dict[str, float],
) -> tuple[float, float, float]:
    """Recompute seconds, kept bytes and rebuilt bytes of a block that recomputes these tensors.

    Of a tensor with a share that much is kept, and as much less is run again.

    Raises:
        SolverFailed: If a rebuilt tensor lacks an input, or an unknown tensor is named.
    """
    ops = {op.name: op for op in block.ops}
    needed = {name for op in block.ops for name in op.backward_reads} - {"x"}
    kept = needed - recomputed
    if recomputed & repeated:
        raise SolverFailed(f"Block '{block.name}' both keeps and drops a tensor.")
    if not all(0.0 < share <= 1.0 for share in shares.values()):
        raise SolverFailed(f"Block '{block.name}' keeps more of a tensor than there is.")
    for name in recomputed | repeated | set(shares):
        if name not in ops:
            raise SolverFailed(f"Block '{block.name}' has no tensor '{name}'.")
        for source in ops[name].inputs:
            if source not in {"x"} | kept | recomputed | set(shares):
                raise SolverFailed(f"'{name}' of '{block.name}' lacks its input '{source}'.")
    rest = {name: 1.0 - shares.get(name, 0.0) for name in recomputed | repeated}
    held = dict.fromkeys(kept, 1.0) | shares
    return (
        sum(part * ops[name].forward_seconds for name, part in rest.items()),
        block.input_bytes + sum(part * ops[name].output_bytes for name, part in held.items()),
        sum(part * ops[name].output_bytes for name, part in rest.items()),
    )


def _with_recompute(order: list[Task], stages: list[_Derived]) -> list[Task]:
    """The order with the recompute of stages that run it ahead, just before each backward."""
    found: list[Task] = []
    for work, stage, m in order:
        if work == "B" and stages[stage].ahead > 0:
            found.append(("R", stage, m))
        found.append((work, stage, m))
    return found


def _run(
    schedule: str, orders: list[list[Task]], stages: list[_Derived], depth: int, send: float
) -> list[float]:
    """When each stage's last task ends, every task run as soon as it may."""
    devices = len(orders)
    place, clock = [0] * devices, [0.0] * devices
    ends: dict[Task, float] = {}
    final = [0.0] * len(stages)
    ready = list(range(devices))
    waits: dict[Task, int] = {}
    while ready:
        device = ready.pop()
        while place[device] < len(orders[device]):
            task = orders[device][place[device]]
            stage = task[1]
            needs = _needs(task, depth)
            if needs is not None and needs not in ends:
                waits[needs] = device
                break
            start = clock[device] if place[device] else stages[stage].gathered
            if needs is not None:
                far = device_of(schedule, needs[1], devices) != device
                start = max(start, ends[needs] + (send if far else 0.0))
            clock[device] = start + stages[stage].seconds[task[0]]
            ends[task] = final[stage] = clock[device]
            place[device] += 1
            if task in waits:
                ready.append(waits.pop(task))
    if any(at < len(order) for at, order in zip(place, orders, strict=True)):
        raise SolverFailed("The order of the schedule deadlocks.")
    return final


def _needs(task: Task, depth: int) -> Task | None:
    """What a task waits for beside its device; ``depth`` stages make one pipeline."""
    work, stage, m = task
    if work == "F":
        return ("F", stage - 1, m) if stage % depth else None
    if work == "B":
        return ("B", stage + 1, m) if stage % depth < depth - 1 else ("F", stage, m)
    return ("B", stage, m) if work == "W" else None


def _peak(order: list[Task], stages: list[_Derived]) -> float:
    """States, and the most that is alive at once.

    That is when some backward of this device begins, its buffer included, or after a task, where
    gradients of weights wait, or in the optimizer's step.
    """
    here = {stage for _, stage, _ in order}
    held = most = 0.0
    for work, stage, _ in order:
        own = stages[stage]
        if work == "F":
            held += own.kept
        elif work == "W":
            held -= own.waiting
        elif work == "B":
            most = max(most, held + own.buffer)
            held += own.waiting - own.kept
        if own.splits:
            most = max(most, held)
    step = sum(stages[at].stepping for at in here) + max(stages[at].working for at in here)
    return max(most, step) + sum(stages[stage].states for stage in here)
