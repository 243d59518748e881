"""SAPP's plan of a pipeline: its recompute types on the costs at hand, balanced by its program.

MindFormers' types, as SAPP counts them (``sapp.py``): nothing; the operators that are selected,
here core attention as elsewhere among the baselines; communication, the outputs of collectives;
both; and the whole layer. Its memory has a constant per device, which its authors fit to dry runs.
Here that is what blocks work on, and where the plan does not fit so, what the largest block
rebuilds as well.
"""

from __future__ import annotations

from solver.assess import assess
from solver.baselines.sapp import Balanced, frame, sapp
from solver.costs.pipeline import Block, OpKind, PipelineCosts
from solver.partition.menu import Part
from solver.partition.stages import Stage
from solver.recompute.choice import choice_keeping, keep_all, needed_tensors
from solver.recompute.frontier import Frontier, frontier_of
from solver.recompute.policies import full, selective
from solver.schedules import Interleaved, OneForwardOneBackward, Schedule
from solver.schedules.ahead import Ahead

SELECTED = ("core_attn",)
"""Modules that are recomputed by selection."""

MOST_NODES = 300
"""Nodes after which the program's best plan is taken; it is mostly found at once."""

MOST_COUNTS = 400
"""Stages times types beyond which the program is left out."""

SECONDS = 20.0
"""A limit for machines that are much slower than thought; nodes end the program long before."""


def knows(costs: PipelineCosts, schedule: Schedule) -> bool:
    """Whether SAPP has a plan: of layers of one kind, 1F1B interleaved or not, not too many."""
    framed = frame(costs.sequence)
    known = isinstance(schedule, OneForwardOneBackward | Interleaved)
    if framed is None or not known or schedule.splits_backward:
        return False
    layers = len(costs.sequence) - len(framed.head) - len(framed.tail)
    bare = schedule.stages - bool(framed.head) - bool(framed.tail)
    types = len(recompute_types(costs.blocks[framed.layer]).choices)
    return layers >= max(bare, 2) and schedule.stages * types <= MOST_COUNTS


def on_demand(schedule: Schedule) -> Schedule:
    """The schedule without recompute ahead of the gradient, which SAPP does not know."""
    return schedule.plain if isinstance(schedule, Ahead) else schedule


def recompute_types(block: Block) -> Frontier:
    """SAPP's five types of a block, those that come to the same once."""
    if not block.checkpointable:
        return frontier_of([keep_all(block)])
    needed = needed_tensors(block)
    communicated = {op.name for op in block.ops if op.kind is OpKind.COMMUNICATION}
    chosen = selective(block, SELECTED)
    found = [
        keep_all(block),
        chosen,
        choice_keeping(block, needed - communicated),
        choice_keeping(block, needed - communicated - set(chosen.recomputed)),
        full(block),
    ]
    return frontier_of(list({(c.kept_bytes, c.seconds): c for c in reversed(found)}.values()))


def balanced(costs: PipelineCosts, schedule: Schedule) -> tuple[Stage, ...] | None:
    """The stages of SAPP's plan; None if it finds none that fits."""
    frontiers = tuple(recompute_types(block) for block in costs.blocks)
    working = max(block.working_bytes for block in costs.blocks)
    rebuilding = max(
        float(front.rebuilt.max()) + block.working_bytes
        for front, block in zip(frontiers, costs.blocks, strict=True)
    )
    for constant in sorted({working, rebuilding}):
        found = sapp(
            costs,
            frontiers,
            schedule,
            time_limit_seconds=SECONDS,
            constant_bytes=constant,
            most_nodes=MOST_NODES,
        )
        if found is None:
            return None
        stages = _stages(found, frontiers)
        if assess(costs, schedule, stages).fits:
            return stages
    return None


def _stages(found: Balanced, frontiers: tuple[Frontier, ...]) -> tuple[Stage, ...]:
    return tuple(
        Stage(start, stop, tuple(Part(k, frontiers[k].choices[c], n) for k, c, n in parts))
        for (start, stop), parts in zip(found.cuts, found.parts, strict=True)
    )
