"""The frameworks by name."""

from __future__ import annotations

from difflib import get_close_matches

from solver.errors import UnknownName
from solver.targets.colossalai import ColossalAI
from solver.targets.deepspeed import DeepSpeed
from solver.targets.galvatron import Galvatron
from solver.targets.megatron import MegatronLM
from solver.targets.megatron_bridge import MegatronBridge
from solver.targets.mindformers import MindFormers
from solver.targets.mindformers_graph import MindFormersGraph
from solver.targets.mindspeed import MindSpeed
from solver.targets.pytorch import PyTorch
from solver.targets.target import Target
from solver.targets.torchtitan import Torchtitan

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        MegatronLM(),
        MegatronBridge(),
        MindSpeed(),
        MindFormers(),
        MindFormersGraph(),
        DeepSpeed(),
        Torchtitan(),
        ColossalAI(),
        Galvatron(),
        PyTorch(),
    )
}
"""Every framework that a plan can be made or written for."""


def target_named(name: str, field: str = "target.framework") -> Target:
    """The framework of that name.

    Raises:
        UnknownName: There is none; the hint names the nearest.
    """
    if name in TARGETS:
        return TARGETS[name]
    close = get_close_matches(name, TARGETS, n=1)
    meant = f"Did you mean {close[0]}? " if close else ""
    raise UnknownName(
        f"No framework '{name[:80]}' is known.",
        field=field,
        hint=f"{meant}Known: {', '.join(TARGETS)}.",
    )
