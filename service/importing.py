"""What a team runs today, beside the best plan for its framework and the best of all.

The configuration is evaluated as it is; then its split and its recompute are left to the solver, at
the same parallel sizes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from service.problems import ProblemError, problem
from service.reading import validate
from solver.plan import Evaluation, Plan
from solver.request import PlanRequest
from solver.targets.planned import planned_for
from solver.targets.registry import target_named
from solver.workload.configurations import Configuration, read_configuration
from solver.workload.megatron import read_megatron_args
from solver.workload.megatron.flags import read_flags

_SPLIT = (
    "--pipeline-model-parallel-layout",
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
    "--decoder-first-pipeline-num-layers",
    "--decoder-last-pipeline-num-layers",
    "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split",
    "--recompute-activations",
    "--recompute-granularity",
    "--recompute-method",
    "--recompute-num-layers",
    "--recompute-modules",
)
"""Flags of the split and of recompute, which the solver is to choose anew."""


@dataclass(frozen=True)
class Imported:
    """Three answers, and the lines of the framework's own configuration that change.

    ``given_up`` and ``taken_up`` are those lines, of today's and of the best plan's.
    """

    framework: str
    yours: Evaluation
    best: Plan
    given_up: list[str]
    taken_up: list[str]


def imported(text: str, base: dict[str, Any]) -> Imported:
    """Read a configuration, evaluate it and plan for its framework.

    Args:
        text: The configuration.
        base: A request's parts that the configuration does not say: the cluster; the model as well,
            unless the configuration is flags.

    Raises:
        BadRequest: The configuration cannot be read or describes nothing that runs.
        ProblemError: The request's parts are not well formed.
    """
    from solver import planner

    found = read_configuration(text)
    today, open_again = _requests(found, base)
    yours = planner.evaluate(today)
    best = planner.plan(open_again)
    target = target_named(found.framework)
    if not best.stages:
        return Imported(found.framework, yours, best, [], [])
    setting = best.restriction.setting if best.restriction else None
    before = _lines(target.export(planned_for(today.training, yours)).text)
    after = _lines(target.export(planned_for(open_again.training, best, setting)).text)
    return Imported(
        framework=found.framework,
        yours=yours,
        best=best,
        given_up=[line for line in before if line not in after],
        taken_up=[line for line in after if line not in before],
    )


def _lines(text: str) -> list[str]:
    return [line.removesuffix(" \\").rstrip() for line in text.splitlines()]


def _requests(found: Configuration, base: dict[str, Any]) -> tuple[PlanRequest, PlanRequest]:
    """The request of what runs today, and the one that leaves split and recompute open."""
    target = {"framework": found.framework}
    if found.flags:
        run = read_megatron_args(found.flags)
        today = base | {"model": {"megatron_args": found.flags}}
        again = base | {
            "model": {"megatron_args": _without_split(found.flags)},
            "layout": run.layout | base.get("layout", {}),
        }
    else:
        if "model" not in base:
            raise ProblemError(
                problem(
                    422,
                    "bad-request",
                    "The request is not well formed",
                    f"A configuration of {found.framework} does not say which model it trains.",
                    field="model",
                    hint="Give a request with model and cluster.",
                )
            )
        again = base | {
            "layout": base.get("layout", {}) | found.layout,
            "training": base.get("training", {}) | found.training,
        }
        today = again | {"recompute": found.recompute}
    again |= {"recompute": {"policy": "optimal"}, "target": target}
    return validate(PlanRequest, today), validate(PlanRequest, again)


def _without_split(flags: str) -> dict[str, Any]:
    """The flags as a mapping, those of the split and of recompute left out."""
    read = read_flags(flags)
    kept: dict[str, Any] = {}
    for flag in read.names():
        if flag not in _SPLIT:
            words = read.values(flag)
            kept[flag] = True if words is None else words
    return kept


def as_document(found: Imported) -> str:
    """The answer as JSON."""
    return json.dumps(
        {
            "framework": found.framework,
            "yours": found.yours.model_dump(mode="json"),
            "best": found.best.model_dump(mode="json"),
            "given_up": found.given_up,
            "taken_up": found.taken_up,
        },
        indent=2,
    )


def in_words(found: Imported) -> str:
    """The answer in a few lines."""
    yours, best = found.yours, found.best
    fullest = max(range(len(yours.stages)), key=lambda s: yours.stages[s].peak_memory_bytes)
    first = (
        f"Yours: {yours.iteration_seconds:.3g} s, "
        f"{yours.stages[fullest].peak_memory_bytes / 1e9:.3g} GB on stage {fullest}"
    )
    lines = [first + ("." if yours.fits else ", which does not fit.")]
    if best.iteration_seconds is None:
        return "\n".join([*lines, best.error or "There is no plan at these parallel sizes."])
    lines.append(f"Best for {found.framework} at these sizes: {best.iteration_seconds:.3g} s.")
    if best.restriction and best.restriction.iteration_seconds_free is not None:
        free = best.restriction.iteration_seconds_free
        lines.append(f"Best of all at these sizes: {free:.3g} s.")
    lines += [f"- {line}" for line in found.given_up]
    lines += [f"+ {line}" for line in found.taken_up]
    return "\n".join(lines)
