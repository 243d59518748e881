"""Baselines: what others would choose, on the same costs as the plan they stand beside."""

from __future__ import annotations

from dataclasses import replace

from solver.assess import Assessment, assess
from solver.baselines.even import even_cuts
from solver.costs.pipeline import PipelineCosts
from solver.partition.policy_menu import policy_menu
from solver.partition.stages import stages_at
from solver.plan import Baseline
from solver.request import Policy, Recompute
from solver.schedules import Schedule

_AMPLE_BYTES = 1e24

_POLICIES = {
    "none": (Recompute(policy=Policy.NONE), "Even split, everything kept."),
    "full": (Recompute(policy=Policy.FULL), "Even split, every layer recomputed in full."),
    "selective": (
        Recompute(policy=Policy.SELECTIVE),
        "Even split, core attention recomputed (Korthikanti et al. 2022).",
    ),
}


def baselines(
    costs: PipelineCosts, schedule: Schedule, iteration_seconds: float
) -> dict[str, Baseline]:
    """Each baseline's time and memory under the plan's own layout.

    ``none``, ``full`` and ``selective`` are shown whether or not they fit; ``even-split`` is the
    even split with the best recompute per stage, where that fits.
    """
    cuts = even_cuts(costs.sequence, schedule.stages)
    ample = replace(costs, capacity_bytes=_AMPLE_BYTES)
    found = {}
    for name, (recompute, note) in _POLICIES.items():
        stages = stages_at(ample, policy_menu(ample, recompute), schedule, cuts)
        assert stages is not None, "everything fits an ample memory"
        found[name] = _baseline(assess(costs, schedule, stages), iteration_seconds, note)
    note = "Even split, the best recompute for each stage."
    stages = stages_at(costs, policy_menu(costs, Recompute()), schedule, cuts)
    if stages is None:
        found["even-split"] = Baseline(iteration_seconds=None, fits=False, note=note)
    else:
        found["even-split"] = _baseline(assess(costs, schedule, stages), iteration_seconds, note)
    return found


def _baseline(judged: Assessment, iteration_seconds: float, note: str) -> Baseline:
    return Baseline(
        iteration_seconds=judged.makespan,
        fits=judged.fits,
        peak_memory_bytes=judged.peak_bytes,
        speed_up=judged.makespan / iteration_seconds if iteration_seconds else None,
        note=note,
    )
