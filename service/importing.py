"""What a team runs today, read from its framework's configuration: the question to be answered."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from service.problems import ProblemError, problem
from service.reading import validate
from solver.imports.documents import ImportAnswer, ImportStudy
from solver.request import Cluster, LayoutRequest, Model, PlanRequest, SolverOptions, Training
from solver.strict import Strict
from solver.workload.configurations import Configuration, read_configuration
from solver.workload.megatron import read_megatron_args
from solver.workload.megatron.flags import read_flags

_EVALUATION_SECONDS = 30.0
_LONGEST = 1_000_000

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


class ImportRequest(Strict):
    """A configuration as it runs today, and what it does not say."""

    configuration: str = Field(
        min_length=1,
        max_length=_LONGEST,
        description="The text: Megatron-LM's or MindSpeed's flags or the launch script with them, "
        "Megatron-Bridge's YAML, DeepSpeed's JSON, torchtitan's TOML.",
    )
    cluster: Cluster = Field(description="What it runs on.")
    model: Model | None = Field(
        default=None, description="What it trains; flags say it themselves."
    )
    training: Training | None = Field(
        default=None, description="What of the run the configuration does not say."
    )
    layout: LayoutRequest | None = Field(
        default=None, description="What of the layout the configuration does not say."
    )
    solver: SolverOptions | None = Field(default=None, description="How long to search.")


def study_of(asked: ImportRequest) -> ImportStudy:
    """The question that a configuration and what it does not say come to.

    Raises:
        BadRequest: The configuration cannot be read or describes nothing that runs.
        ProblemError: It does not say all that is needed, or says it wrongly.
    """
    base = asked.model_dump(mode="json", exclude_unset=True, exclude={"configuration"})
    base = {name: value for name, value in base.items() if value is not None}
    found = read_configuration(asked.configuration)
    today, open_again = (validate(PlanRequest, it) for it in _requests(found, base))
    return ImportStudy(
        framework=found.framework,
        today=today,
        job=open_again,
        setting=found.setting,
        time_limit_seconds=open_again.solver.time_limit_seconds + _EVALUATION_SECONDS,
    )


def imported(text: str, base: dict[str, Any]) -> ImportAnswer:
    """Read a configuration, evaluate it and plan for its framework, in this process.

    Args:
        text: The configuration.
        base: What it does not say, by the names of :class:`ImportRequest`.

    Raises:
        BadRequest: The configuration cannot be read or describes nothing that runs.
        ProblemError: The other parts are not well formed.
    """
    from solver.imports.compare import compare

    return compare(study_of(validate(ImportRequest, base | {"configuration": text})))


def _requests(found: Configuration, base: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
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
                    hint="Give model as well.",
                )
            )
        again = base | {
            "layout": base.get("layout", {}) | found.layout,
            "training": base.get("training", {}) | found.training,
        }
        today = again | {"recompute": found.recompute}
    return today, again | {"recompute": {"policy": "optimal"}, "target": target}


def _without_split(flags: str) -> dict[str, Any]:
    """The flags as a mapping, those of the split and of recompute left out."""
    read = read_flags(flags)
    kept: dict[str, Any] = {}
    for flag in read.names():
        if flag not in _SPLIT:
            words = read.values(flag)
            kept[flag] = True if words is None else words
    return kept


def in_words(found: ImportAnswer) -> str:
    """The answer in a few lines, with those of the configuration that change."""
    lines = [*found.words]
    lines += [f"- {line}" for line in found.given_up]
    lines += [f"+ {line}" for line in found.taken_up]
    return "\n".join(lines)
