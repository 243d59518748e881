"""The ways in which the plans of a question may be made: freely, or as its framework allows."""

from __future__ import annotations

from solver.partition.policy_menu import best_frontier, policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.partition.regime import Regime
from solver.question import Question
from solver.request import ChoicePer, Overlap, Policy, Recompute
from solver.search.state import Regimes


def regimes_of(asked: Question) -> Regimes:
    """The regimes of a question: its target's where it has one, else those of its policy."""
    target = asked.target
    if target is None:
        return free_regimes(asked.request.recompute)
    return lambda layout, costs: target.regimes(costs, layout)


def free_regimes(recompute: Recompute) -> Regimes:
    """The ways in which a plan may be made where no framework says otherwise."""
    if recompute.choice_per is ChoicePer.MODEL:
        return lambda _, costs: policy_regimes(costs, recompute)
    ahead = uses_stalls(recompute)
    plain = recompute.policy is Policy.OPTIMAL and recompute.overlap in (None, Overlap.OFF)
    asked = Regime(
        lambda costs: policy_menu(costs, recompute),
        ahead=ahead,
        choices=best_frontier if plain and recompute.choice_per is ChoicePer.BLOCK else None,
    )
    if recompute.overlap not in (Overlap.COMMUNICATION, Overlap.ALL):
        return lambda _layout, _costs: [asked]
    # Large stages fill windows nearly as well as can be; no plan may be slower than one without.
    bare = recompute.model_copy(update={"overlap": Overlap.STALLS if ahead else Overlap.OFF})
    without = Regime(lambda costs: policy_menu(costs, bare), ahead=ahead)
    return lambda _layout, _costs: [asked, without]


def uses_stalls(recompute: Recompute) -> bool:
    """Whether stages may recompute ahead of the gradient."""
    free = recompute.policy is Policy.OPTIMAL
    return free and recompute.overlap in (Overlap.STALLS, Overlap.ALL)
