"""From a request's recompute policy to the menu that the partition asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from solver.costs.pipeline import Block, PipelineCosts
from solver.errors import BadRequest
from solver.partition.alike_menu import AlikeMenu
from solver.partition.device_menus import DeviceMenus
from solver.partition.free_menu import FreeMenu
from solver.partition.gathered_menu import GatheredMenu
from solver.partition.menu import Menu, Part
from solver.partition.ruled_menu import RuledMenu
from solver.partition.timed_menu import TimedMenu
from solver.partition.window_menu import WindowMenu
from solver.recompute.choice import Choice, keep_all
from solver.recompute.frontier import Frontier, frontier, frontier_of
from solver.recompute.policies import full, least_memory, selective
from solver.recompute.windows import placeable, windows
from solver.request import ChoicePer, Overlap, Policy, Recompute

DEFAULT_MODULES = ("core_attn",)
"""What Megatron-LM's selective recompute drops unless told otherwise."""


def policy_menu(costs: PipelineCosts, recompute: Recompute) -> Menu:
    """The menu of a policy on these costs.

    Raises:
        BadRequest: The policy lacks a number, names modules that no block has, or is not known.
    """
    if costs.devices:
        made = {one: policy_menu(one, recompute) for one in costs.different}
        return DeviceMenus(tuple(made[one] for one in costs.devices))
    policy = recompute.policy
    if policy is not Policy.OPTIMAL and recompute.choice_per is not ChoicePer.BLOCK:
        raise BadRequest(
            f"Policy '{policy.value}' leaves no choice that blocks could share.",
            field="recompute.choice_per",
            hint="Leave it out, or plan with policy optimal.",
        )
    if policy is Policy.OPTIMAL:
        fronts = best_frontiers(costs)
        if recompute.choice_per is ChoicePer.STAGE:
            return AlikeMenu(costs, fronts)
        return _overlapping(costs, fronts, recompute.overlap or Overlap.OFF)
    if policy is Policy.NONE:
        return FreeMenu(costs, tuple(frontier_of([keep_all(block)]) for block in costs.blocks))
    if policy is Policy.FULL:
        return FreeMenu(costs, tuple(frontier_of([full(block)]) for block in costs.blocks))
    if policy is Policy.SELECTIVE:
        modules = tuple(recompute.modules or DEFAULT_MODULES)
        _check_modules(costs, modules, recompute.modules is not None)
        dropped = [frontier_of([selective(block, modules)]) for block in costs.blocks]
        return FreeMenu(costs, tuple(dropped))
    if policy is Policy.BLOCK:
        return _first_layers(costs, _number(recompute, least=0))
    if policy is Policy.UNIFORM:
        return _groups(costs, 1 if recompute.num_layers is None else _number(recompute, least=1))
    raise BadRequest(
        f"Policy '{policy.value}' is a method of its own, not a restriction of a plan.",
        field="recompute.policy",
        hint="Give optimal, none, full, selective, uniform or block.",
    )


def least_memory_menu(costs: PipelineCosts) -> Menu:
    """Everything that can be is recomputed: what needs least memory of all."""
    if costs.devices:
        return DeviceMenus(tuple(least_memory_menu(one) for one in costs.devices))
    return FreeMenu(costs, tuple(frontier_of([least_memory(block)]) for block in costs.blocks))


def _overlapping(costs: PipelineCosts, frontiers: tuple[Frontier, ...], overlap: Overlap) -> Menu:
    """Free choice, with what may hide where."""
    ahead = overlap in (Overlap.STALLS, Overlap.ALL)
    # What runs ahead needs all of a stage at once, so that nothing of it waits in host memory.
    on_device = frontiers
    if costs.offload_bytes:
        on_device = tuple(best_frontier(block) for block in costs.blocks)
    if overlap in (Overlap.COMMUNICATION, Overlap.ALL) and _has_windows(costs):
        hiding = WindowMenu(costs, frontiers)
        if not ahead:
            return hiding
        return TimedMenu(hiding, WindowMenu(costs, on_device, on_demand=hiding))
    on_demand = FreeMenu(costs, frontiers)
    return TimedMenu(on_demand, GatheredMenu(costs, on_device)) if ahead else on_demand


def _has_windows(costs: PipelineCosts) -> bool:
    """Whether something may be recomputed in some window."""
    return any(windows(block, costs.overlapping) for block in costs.blocks) and any(
        placeable(block) for block in costs.blocks
    )


def best_frontiers(costs: PipelineCosts) -> tuple[Frontier, ...]:
    """The frontier of every kind of block, with what it may offload."""
    budgets = costs.offload_bytes or (0.0,) * len(costs.blocks)
    return tuple(
        best_frontier(block, budget) for block, budget in zip(costs.blocks, budgets, strict=True)
    )


def best_frontier(block: Block, offload_bytes: float = 0.0) -> Frontier:
    """The frontier of a block, made once for all that differ in nothing it depends on.

    An op that reads nothing in its backward, and whose tensor nobody reads, plays no part: what
    moves weights, or waits for sends, and so differs from layout to layout.
    """
    read = {name for op in block.ops for name in (*op.inputs, *op.backward_reads)}
    ops = tuple(op for op in block.ops if op.name in read or op.backward_reads)
    return _frontier(Block(block.name, ops, block.input_bytes), offload_bytes)


@lru_cache(maxsize=256)
def _frontier(block: Block, offload_bytes: float) -> Frontier:
    return frontier(block, offload_bytes)


def _number(recompute: Recompute, least: int) -> int:
    number = recompute.num_layers
    if number is None or number < least:
        raise BadRequest(
            f"Policy '{recompute.policy.value}' needs a number of layers of {least} or more.",
            field="recompute.num_layers",
            hint="Give recompute.num_layers.",
        )
    return number


def _check_modules(costs: PipelineCosts, modules: tuple[str, ...], given: bool) -> None:
    known = sorted({module.name for block in costs.blocks for module in block.modules})
    for position, module in enumerate(modules):
        if given and module not in known:
            raise BadRequest(
                f"No layer of this model has a module '{module}'.",
                field=f"recompute.modules[{position}]",
                hint=f"Its modules are: {', '.join(known)}." if known else "It names no modules.",
            )


def _first_layers(costs: PipelineCosts, layers: int) -> Menu:
    """Megatron-LM's ``block``: the first layers of every stage in full, the others not at all."""
    kept = [keep_all(block) for block in costs.blocks]
    return first_layers_menu(costs, layers, kept)


def first_layers_menu(costs: PipelineCosts, layers: int, others: Sequence[Choice]) -> Menu:
    """The first layers of every stage in full, the others as ``others`` says of their kind.

    Kinds follow one another in the order of the model.
    """
    dropped, kept = [full(block) for block in costs.blocks], others
    first_seen = list(dict.fromkeys(costs.sequence))

    def rule(counts: tuple[int, ...]) -> tuple[Part, ...]:
        left, parts = layers, []
        for kind in first_seen:
            if counts[kind]:
                some = min(left, counts[kind]) if costs.blocks[kind].checkpointable else 0
                left -= some
                parts.append(Part(kind, dropped[kind], some))
                parts.append(Part(kind, kept[kind], counts[kind] - some))
        return tuple(part for part in parts if part.count)

    return RuledMenu(costs, rule)


def _groups(costs: PipelineCosts, group: int) -> Menu:
    """Megatron-LM's ``uniform``: every layer in full, in groups that keep one input each."""
    dropped = [full(block) for block in costs.blocks]

    def rule(counts: tuple[int, ...]) -> tuple[Part, ...]:
        return tuple(
            Part(kind, dropped[kind], count, group if costs.blocks[kind].checkpointable else 1)
            for kind, count in enumerate(counts)
            if count
        )

    return RuledMenu(costs, rule)
