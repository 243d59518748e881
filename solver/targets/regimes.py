"""Recompute settings that hold for a whole model, as regimes of the search with their bounds.

Each is one value of what a framework calls its recompute setting. Two bounds keep most of them from
being solved: memory that all stages together do not have (``_unless_missing``), and the time of
the stage with most layers (``_first_layers_bound``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from solver.costs.pipeline import Block, PipelineCosts
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Menu, Part
from solver.partition.outcome import Partition
from solver.partition.policy_menu import first_layers_menu, policy_menu
from solver.partition.prefix_menu import PrefixMenu
from solver.partition.regime import Admits, Regime, Value
from solver.partition.ruled_menu import RuledMenu
from solver.partition.stages import AMPLE_BYTES
from solver.recompute.choice import Choice, choice_keeping, keep_all, needed_tensors
from solver.recompute.frontier import TOLERANCE, Frontier, frontier_of
from solver.recompute.policies import full
from solver.request import Policy, Recompute
from solver.schedules import Schedule
from solver.schedules.schedule import ByKey
from solver.targets.layers import framed, kinds_in_turn, layer_count, layer_kinds

Choose = Callable[[Block], Choice]
"""What a setting makes of a block."""

Setting = tuple[tuple[str, Value], ...]

Flights = tuple[int, ...]
"""Per pipeline device, micro-batches in flight at least; one number for each device."""


def one_choice(
    costs: PipelineCosts, flights: Flights, setting: Setting, choose: Choose, admits: Admits
) -> Regime:
    """Every block of a kind does the same, whatever its stage."""
    choices = [choose(block) for block in framed(costs).blocks]

    def menu(those: PipelineCosts) -> Menu:
        return FreeMenu(those, tuple(frontier_of([choose(b)]) for b in framed(those).blocks))

    return Regime(
        menu=menu,
        setting=setting,
        recompute_seconds=tuple(choice.seconds for choice in choices),
        bound=_unless_missing(costs, flights, sum(choices[k].kept_bytes for k in costs.sequence)),
        admits=admits,
    )


def any_choice(
    setting: Setting, choose: Callable[[Block], list[Choice]], admits: Admits | None = None
) -> Regime:
    """Every block picks one of a few choices for itself."""

    def menu(those: PipelineCosts) -> Menu:
        return FreeMenu(those, tuple(worthwhile(choose(block)) for block in framed(those).blocks))

    return Regime(menu=menu, setting=setting, admits=admits)


def all_or_nothing(block: Block) -> list[Choice]:
    """A layer in full or not at all; the model's ends keep everything."""
    return [keep_all(block), in_full(block)] if block.checkpointable else [keep_all(block)]


def some_first_layers(costs: PipelineCosts, admits: Admits) -> list[Regime]:
    """A number of first layers for every stage, each its own."""
    if len(layer_kinds(costs)) == 1:
        return [any_choice((), all_or_nothing, admits)]
    most, turns = layer_count(costs), kinds_in_turn(costs)
    numbers = (0, most) if turns else tuple(range(most + 1))
    return [Regime(menu=lambda c: PrefixMenu(framed(c), numbers), admits=admits)]


def in_full(block: Block) -> Choice:
    """A layer run again as a whole, and told so: a profile does not say what that costs more."""
    return replace(full(block), whole=block.checkpointable)


def worthwhile(choices: Iterable[Choice]) -> Frontier:
    """The choices that no other replaces (``solver.recompute.frontier`` says when one may)."""
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda c: (c.kept_bytes, c.seconds, c.recompute_bytes)):
        total = choice.kept_bytes + choice.recompute_bytes
        if not any(
            other.seconds <= choice.seconds
            and other.kept_bytes + other.recompute_bytes <= total * (1 + TOLERANCE)
            for other in kept
        ):
            kept.append(choice)
    return frontier_of(kept)


def first_layers(
    costs: PipelineCosts,
    flights: Flights,
    layers: int,
    setting: Setting,
    others: Choose,
    admits: Admits,
) -> Regime:
    """The first ``layers`` of every stage in full, the other layers as ``others`` says."""
    blocks, kinds = framed(costs).blocks, layer_kinds(costs)
    rest = [others(block) for block in blocks]
    whole = [full(block) for block in blocks]
    kept = sum(rest[kind].kept_bytes for kind in costs.sequence)
    saved = max((rest[k].kept_bytes - whole[k].kept_bytes for k in kinds), default=0.0)
    kept -= min(layers * len(flights), layer_count(costs)) * max(saved, 0.0)
    bound = _unless_missing(costs, flights, kept)
    if math.isfinite(bound) and kinds:
        bound = _first_layers_bound(costs, len(flights), layers, rest, whole)

    def menu(those: PipelineCosts) -> Menu:
        return first_layers_menu(framed(those), layers, [others(b) for b in framed(those).blocks])

    return Regime(menu=menu, setting=setting, bound=bound, admits=admits)


def every_nth(
    costs: PipelineCosts, flights: Flights, number: int, setting: Setting, admits: Admits
) -> Regime:
    """Of every stage's layers the n-th, the 2n-th and so on in full, the others not at all.

    Kinds of layer stand one after the other, not in turn.
    """
    blocks, kinds = framed(costs).blocks, layer_kinds(costs)
    kept = [keep_all(block) for block in blocks]
    saved = max((kept[k].kept_bytes - full(blocks[k]).kept_bytes for k in kinds), default=0.0)
    total = sum(kept[kind].kept_bytes for kind in costs.sequence)
    total -= layer_count(costs) // number * max(saved, 0.0)

    def menu(those: PipelineCosts) -> Menu:
        found = framed(those).blocks
        none, whole = [keep_all(block) for block in found], [in_full(block) for block in found]

        def rule(counts: tuple[int, ...]) -> tuple[Part, ...]:
            parts, before = [], 0
            for kind, count in enumerate(counts):
                again = (before + count) // number - before // number if kind in kinds else 0
                before += count if kind in kinds else 0
                parts.append(Part(kind, none[kind], count - again))
                parts.append(Part(kind, whole[kind], again))
            return tuple(part for part in parts if part.count)

        return RuledMenu(framed(those), rule)

    bound = _unless_missing(costs, flights, total)
    return Regime(menu=menu, setting=setting, bound=bound, admits=admits)


def groups(
    costs: PipelineCosts, largest: int, words: Callable[[int], Setting], admits: Admits
) -> list[Regime]:
    """All layers in full, in groups of 1, 2, ... that keep one input each.

    The size of a group changes memory, never the time of a split: groups above 1 are only looked at
    where the best split of single layers is held back by its memory.
    """

    def menu(size: int) -> Callable[[PipelineCosts], Menu]:
        policy = Recompute(policy=Policy.UNIFORM, num_layers=size)
        return lambda those: policy_menu(framed(those), policy)

    @cache
    def lower_of(keyed: ByKey) -> float:
        # The program's library is loaded where something is solved, not where plans are written.
        from solver.partition.solve import PartitionProblem

        schedule = keyed.schedule
        ample = replace(costs, capacity_bytes=AMPLE_BYTES)
        found = PartitionProblem(ample, menu(1)(ample), schedule, admits).solve()
        return found.lower_bound if isinstance(found, Partition) else 0.0

    def lower(schedule: Schedule) -> float:
        return lower_of(ByKey(schedule)) if schedule.virtual_stages == 1 else 0.0

    blocks = framed(costs).blocks
    seconds = tuple(full(block).seconds for block in blocks)
    return [
        Regime(
            menu=menu(size),
            setting=words(size),
            recompute_seconds=seconds,
            admits=admits,
            lower=lower if size > 1 else None,
        )
        for size in range(1, largest + 1)
    ]


def dropping(names: frozenset[str]) -> Choose:
    """Keeps everything but these tensors."""

    def choose(block: Block) -> Choice:
        needed = needed_tensors(block)
        if not block.checkpointable or not needed & names:
            return keep_all(block)
        return choice_keeping(block, needed - names)

    return choose


def subsets(names: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """All subsets but the empty one, smaller ones first."""
    sizes = range(1, len(names) + 1)
    return itertools.chain.from_iterable(itertools.combinations(names, size) for size in sizes)


def _unless_missing(costs: PipelineCosts, flights: Flights, kept_bytes: float) -> float:
    """Infinity where so many kept bytes per micro-batch surely do not fit, else 0.

    A stage with f micro-batches in flight keeps at most its room over f per micro-batch; states
    take least of that where f is largest, so they are laid there.
    """
    room = costs.capacity_bytes - costs.reserved_bytes
    states = sum(costs.blocks[kind].states.total for kind in costs.sequence)
    most = 0.0
    for flight in sorted(flights, reverse=True):
        laid = min(states, room)
        states -= laid
        most += (room - laid) / flight
    return math.inf if states > room * 1e-9 or kept_bytes > most * (1 + 1e-9) else 0.0


def _first_layers_bound(
    costs: PipelineCosts,
    devices: int,
    layers: int,
    rest: Sequence[Choice],
    whole: Sequence[Choice],
) -> float:
    """Some device holds at least its share of the layers, and runs the first of them again."""
    kinds = layer_kinds(costs)
    most = -(-layer_count(costs) // devices)
    passes = [b.forward_seconds + b.backward_seconds for b in costs.blocks]
    least = min(passes[k] + rest[k].seconds for k in kinds)
    again = min(whole[k].seconds - rest[k].seconds for k in kinds)
    per_micro_batch = most * least + min(layers, most) * again
    return costs.micro_batches * per_micro_batch + costs.fixed_seconds
