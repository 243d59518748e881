"""The slow twin of the targets: every plan that a framework can be told, one after the other.

Written from the frameworks' own rules in plain loops; of the solver it takes the cost types alone.
A model is an embedding, layers, and a head; the layers may be of two kinds, one after the other.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from solver.costs.pipeline import Block, Module, PipelineCosts
from tests.solver.exhaustive import (
    in_flight,
    interleaved_makespan,
    interleaved_order,
    makespan,
)
from tests.solver.random_costs import random_block

TENSORS = NORM, ATTENTION, ACTIVATION = (
    "attention_norm",
    "core_attention",
    "feed_forward_activation",
)
"""Of a layer, in order: a norm's, the attention's, and the feed-forward's activation function's."""

Done = tuple[float, float, float]
"""Of a block: bytes kept, seconds of recompute, bytes rebuilt."""


def model(seed: int, stages: int, kinds: int = 1) -> PipelineCosts:
    """A small model with ends, its memory anywhere from impossible to ample."""
    rng = random.Random(seed)
    blocks = [random_block(rng, "embedding", 1, False)]
    for number in range(kinds):
        block = random_block(rng, f"layer_{number}", 3, False)
        again = sum(op.forward_seconds for op in block.ops)
        block = _named(block)
        modules = (Module("layernorm", (NORM,)), Module("mlp", (ATTENTION, ACTIVATION)))
        blocks.append(replace(block, rerun_seconds=again, modules=modules))
    blocks.append(random_block(rng, "head", 1, False))
    blocks = [replace(b, checkpointable=b.name.startswith("layer")) for b in blocks]
    layers = sorted(rng.randrange(kinds) + 1 for _ in range(rng.randint(stages, 5)))
    sequence = (0, *layers, kinds + 1)
    micro_batches = rng.randint(1, 5)
    most = sum(
        blocks[k].states.total + min(stages, micro_batches) * kept(blocks[k])[0] for k in sequence
    )
    least = sum(blocks[k].states.total + blocks[k].input_bytes for k in sequence) / stages
    return PipelineCosts(
        blocks=tuple(blocks),
        sequence=sequence,
        micro_batches=micro_batches,
        capacity_bytes=least + (most - least) * rng.random(),
        send_seconds=rng.choice([0.0, 0.5]),
    )


def _named(block: Block) -> Block:
    """The block with its three tensors called as frameworks know them."""
    names = {"x": "x"} | dict(zip(("t0", "t1", "t2"), TENSORS, strict=True))
    ops = tuple(
        replace(
            op,
            name=names[op.name],
            inputs=tuple(names[name] for name in op.inputs),
            backward_reads=tuple(names[name] for name in op.backward_reads),
        )
        for op in block.ops
    )
    return replace(block, ops=ops)


def dropping(block: Block, names: frozenset[str]) -> Done:
    """Everything needed is kept but these tensors."""
    needed = {name for op in block.ops for name in op.backward_reads} - {"x"}
    held = needed - names
    again: set[str] = set()
    for op in reversed(block.ops):
        read = any(op.name in other.inputs for other in block.ops if other.name in again)
        if op.name not in held and (op.name in needed or read):
            again.add(op.name)
    return (
        block.input_bytes + sum(op.output_bytes for op in block.ops if op.name in held),
        sum(op.forward_seconds for op in block.ops if op.name in again),
        sum(op.output_bytes for op in block.ops if op.name in again),
    )


def kept(block: Block) -> Done:
    """Nothing is recomputed."""
    return dropping(block, frozenset())


def whole(block: Block) -> Done:
    """A layer is run again as a whole; an end of the model keeps everything."""
    if not block.name.startswith("layer"):
        return kept(block)
    done = dropping(block, frozenset(op.name for op in block.ops))
    return (done[0], max(done[1], block.rerun_seconds or 0.0), done[2])


Stage = list[Done]
Setting = Callable[[tuple[Block, ...]], list[tuple[float, float, float]]]
"""From a stage's blocks to its (kept, seconds, buffer), one entry for each way it may choose."""


def each(do: Callable[[int, Block], Done]) -> Setting:
    """Every block by itself; ``do`` is told its number among the stage's layers."""

    def setting(blocks: tuple[Block, ...]) -> list[tuple[float, float, float]]:
        done, layer = [], 0
        for block in blocks:
            done.append(do(layer, block))
            layer += block.name.startswith("layer")
        return [(sum(d[0] for d in done), sum(d[1] for d in done), max(d[2] for d in done))]

    return setting


def free_choice(choices: Callable[[Block], list[Done]]) -> Setting:
    """Every block picks one of a few."""

    def setting(blocks: tuple[Block, ...]) -> list[tuple[float, float, float]]:
        return [
            (sum(d[0] for d in done), sum(d[1] for d in done), max(d[2] for d in done))
            for done in itertools.product(*(choices(block) for block in blocks))
        ]

    return setting


def in_groups(size: int, with_ends: bool) -> Setting:
    """Groups of consecutive layers that keep the first one's input; the last may be smaller.

    ``with_ends``: groups are counted over all blocks, and one with an end keeps everything.
    """

    def setting(blocks: tuple[Block, ...]) -> list[tuple[float, float, float]]:
        done: list[Done] = []
        waiting = list(blocks)
        if not with_ends:
            done = [kept(block) for block in waiting if not block.name.startswith("layer")]
            waiting = [block for block in waiting if block.name.startswith("layer")]
        for start in range(0, len(waiting), size):
            group = waiting[start : start + size]
            if all(block.name.startswith("layer") for block in group):
                runs = [whole(block) for block in group]
                inputs = sum(run[0] for run in runs[1:])
                done.append((runs[0][0], sum(r[1] for r in runs), sum(r[2] for r in runs) + inputs))
            else:
                done += [kept(block) for block in group]
        return [(sum(d[0] for d in done), sum(d[1] for d in done), max(d[2] for d in done))]

    return setting


def fastest(
    costs: PipelineCosts,
    schedule: str,
    stages: int,
    settings: list[Setting],
    splits: Iterator[tuple[tuple[int, int], ...]],
) -> float:
    """The least makespan over splits and settings; infinite if nothing fits."""
    best, n = math.inf, costs.micro_batches
    for split in splits:
        runs = [tuple(costs.blocks[k] for k in costs.sequence[a:b]) for a, b in split]
        states = [sum(block.states.total for block in run) for run in runs]
        for setting in settings:
            seconds = []
            for stage, run in enumerate(runs):
                flight = in_flight(schedule, stage, stages, n)
                room = costs.capacity_bytes * (1 + 1e-12)
                fitting = [
                    again
                    for held, again, buffer in setting(run)
                    if states[stage] + flight * held + buffer <= room
                ]
                seconds.append(min(fitting, default=math.inf))
            if math.isinf(sum(seconds)):
                continue
            forward = [sum(block.forward_seconds for block in run) for run in runs]
            backward = [
                sum(block.backward_seconds for block in run) + again
                for run, again in zip(runs, seconds, strict=True)
            ]
            best = min(best, makespan(schedule, forward, backward, n, costs.send_seconds))
    return best


def interleaved_fastest(
    costs: PipelineCosts,
    devices: int,
    chunks: int,
    settings: list[Setting],
    splits: Iterator[tuple[tuple[int, int], ...]],
) -> float:
    """The same where every device holds several stages: chunk by chunk, in turn."""
    best, n = math.inf, costs.micro_batches
    orders = [interleaved_order(device, devices, chunks, n) for device in range(devices)]
    for split in splits:
        runs = [tuple(costs.blocks[k] for k in costs.sequence[a:b]) for a, b in split]
        forward = [sum(block.forward_seconds for block in run) for run in runs]
        plain = [sum(block.backward_seconds for block in run) for run in runs]
        for setting in settings:
            options = [setting(run) for run in runs]
            by_device = [
                _fitting(costs, runs, options, orders[device], devices, device)
                for device in range(devices)
            ]
            for chosen in itertools.product(*by_device):
                backward = list(plain)
                for device, seconds in enumerate(chosen):
                    for chunk, extra in enumerate(seconds):
                        backward[chunk * devices + device] += extra
                if sum(forward) + sum(backward) < best:
                    time = interleaved_makespan(forward, backward, devices, n, costs.send_seconds)
                    best = min(best, time)
    return best


def _fitting(
    costs: PipelineCosts,
    runs: list[tuple[Block, ...]],
    options: list[list[tuple[float, float, float]]],
    order: list[tuple[str, int, int]],
    devices: int,
    device: int,
) -> set[tuple[float, ...]]:
    """Seconds of every way in which a device's chunks fit together, least ones only."""
    mine = range(device, len(runs), devices)
    states = sum(block.states.total for stage in mine for block in runs[stage])
    room = costs.capacity_bytes * (1 + 1e-12)
    found = {
        tuple(seconds for _, seconds, _ in ways)
        for ways in itertools.product(*(options[stage] for stage in mine))
        if states + most_alive(order, dict(zip(mine, ways, strict=True))) <= room
    }
    return {
        this
        for this in found
        if not any(other != this and all(map(operator.le, other, this)) for other in found)
    }


def most_alive(
    order: list[tuple[str, int, int]], chosen: dict[int, tuple[float, float, float]]
) -> float:
    """Most bytes at the start of any backward, its stage's buffer included."""
    alive, most = dict.fromkeys(chosen, 0), 0.0
    for work, stage, _ in order:
        if work == "F":
            alive[stage] += 1
            continue
        held = sum(count * chosen[at][0] for at, count in alive.items())
        most = max(most, held + chosen[stage][2])
        alive[stage] -= 1
    return most


def every_split(
    costs: PipelineCosts, stages: int, *, head_alone: bool, embedding_alone: bool = False
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every split that leaves each stage a layer, or an end of the model where that may be."""
    length = len(costs.sequence)
    for cuts in itertools.combinations(range(1, length), stages - 1):
        split = tuple(itertools.pairwise((0, *cuts, length)))
        names = [{costs.blocks[k].name for k in costs.sequence[a:b]} for a, b in split]
        if all(
            any(name.startswith("layer") for name in held)
            or (head_alone and "head" in held)
            or (embedding_alone and "embedding" in held)
            for held in names
        ):
            yield split
