"""The ways in which the plans of a question may be made: freely, or as its framework allows."""

from __future__ import annotations

from solver.partition.policy_menu import policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.question import Question
from solver.request import ChoicePer, Overlap, Recompute
from solver.search.search import Regimes, one_regime


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
    return one_regime(
        lambda costs: policy_menu(costs, recompute),
        ahead=recompute.overlap in (Overlap.STALLS, Overlap.ALL),
    )
