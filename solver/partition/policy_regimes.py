"""The ways in which a plan may be made under a request's recompute policy.

Most policies know one way. Where all blocks of a kind in the model must choose alike, each
combination of choices is a way of its own, and so is each number of layers where the best one is
looked for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.partition.free_menu import FreeMenu
from solver.partition.policy_menu import best_frontiers, policy_menu
from solver.partition.regime import Regime
from solver.recompute.frontier import Frontier, frontier_of
from solver.recompute.policies import full
from solver.request import ChoicePer, Policy, Recompute

MOST_REGIMES = 4096
"""Combinations of choices beyond which looking at each is not offered."""


def policy_regimes(costs: PipelineCosts, recompute: Recompute) -> Sequence[Regime]:
    """The regimes of a policy on these costs, the one of least kept bytes first.

    Raises:
        BadRequest: As ``policy_menu``; or the kinds of block have too many choices to be told
            apart for the whole model.
    """
    if recompute.choice_per is not ChoicePer.MODEL:
        return [Regime(lambda own: policy_menu(own, recompute))]
    if recompute.policy is not Policy.OPTIMAL:
        policy_menu(costs, recompute)  # refuses what cannot be chosen under another policy
    return alike_in_model(costs)


def alike_in_model(costs: PipelineCosts) -> Sequence[Regime]:
    """One regime for every combination of choices of the kinds that occur more than once.

    Raises:
        BadRequest: There are more than ``MOST_REGIMES``.
    """
    count = model_choices(costs)
    if count > MOST_REGIMES:
        raise BadRequest(
            f"The kinds of block of this model have {count} combinations of choices.",
            field="recompute.choice_per",
            hint="Choose per stage, or leave it out.",
        )
    fronts = list(best_frontiers(costs))
    return [_alike(fronts, chosen) for chosen in itertools.product(*_options(costs))]


def model_choices(costs: PipelineCosts) -> int:
    """Combinations of choices of the kinds of block that occur more than once."""
    return math.prod(len(option) for option in _options(costs))


def each_block(costs: PipelineCosts, stages: int, numbers: Sequence[int]) -> Sequence[Regime]:
    """``block`` with every number k of layers.

    Some stage holds m, the p-th part of the L layers, or more, and recomputes min(k, m) of them:
    n (m (F + B) + min(k, m) recompute), each of its least over the layers, bounds every plan.
    """
    layers = [costs.blocks[kind] for kind in costs.sequence if costs.blocks[kind].checkpointable]
    passes = min((b.forward_seconds + b.backward_seconds for b in layers), default=0.0)
    again = min((full(block).seconds for block in set(layers)), default=0.0)
    share = -(-len(layers) // stages)

    def under(number: int) -> Regime:
        recompute = Recompute(policy=Policy.BLOCK, num_layers=number)
        least = share * passes + min(number, share) * again
        bound = costs.micro_batches * least + costs.fixed_seconds
        setting = (("num_layers", number),)
        return Regime(lambda own: policy_menu(own, recompute), setting, bound=bound)

    return [under(number) for number in numbers]


def each_group(costs: PipelineCosts, numbers: Sequence[int]) -> Sequence[Regime]:
    """``uniform`` with every group size; the smallest groups need least memory to rebuild."""
    again = tuple(full(block).seconds for block in costs.blocks)

    def under(number: int) -> Regime:
        recompute = Recompute(policy=Policy.UNIFORM, num_layers=number)
        return Regime(lambda own: policy_menu(own, recompute), (("num_layers", number),), again)

    return [under(number) for number in numbers]


def _options(costs: PipelineCosts) -> list[Sequence[int | None]]:
    """Per kind, the places of its choices, or None where a single block chooses freely."""
    return [
        range(len(front.choices)) if costs.sequence.count(kind) > 1 else (None,)
        for kind, front in enumerate(best_frontiers(costs))
    ]


def _alike(fronts: list[Frontier], chosen: tuple[int | None, ...]) -> Regime:
    """Kinds with a choice take it everywhere, the others choose freely."""
    narrowed = tuple(
        front if choice is None else frontier_of([front.choices[choice]])
        for front, choice in zip(fronts, chosen, strict=True)
    )
    return Regime(
        menu=lambda costs: FreeMenu(costs, narrowed),
        recompute_seconds=tuple(float(front.seconds.min()) for front in narrowed),
    )
