"""A model's layers measured on this machine, where PyTorch is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.problems import ProblemError, problem
from service.reading import parse
from solver.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from profiler.profile import Measured
    from solver.workload.architecture import Architecture


def profiled(model: str, on_block: Callable[[str], None], **asked: Any) -> Measured:
    """Measure a model; ``asked`` as the fields of ``profiler.profile.Asked``.

    Raises:
        ProblemError: PyTorch is missing, or a file cannot be read.
        UnknownName: There is no such model.
        BadRequest: The model or a size cannot be measured.
    """
    if find_spec("torch") is None:
        raise ProblemError(
            problem(
                501,
                "no-pytorch",
                "PyTorch is not installed",
                "Layers are measured with PyTorch.",
                hint="Install stagecut[torch].",
            )
        )
    from profiler.profile import Asked
    from profiler.profile import profiled as measure

    return measure(Asked(architecture_of(model), **asked), on_block)


def architecture_of(model: str) -> Architecture:
    """The architecture of a catalogue name or of a ``config.json``.

    Raises:
        ProblemError: The file cannot be read.
        UnknownName: There is no such model.
        BadRequest: The file is no configuration that can be read.
    """
    from service.command_line import read_file
    from solver.workload.catalogue import architecture
    from solver.workload.huggingface import architecture_from_huggingface

    if model != "-" and Path(model).suffix != ".json":
        return architecture(model, "--model")
    content = parse(read_file(model))
    if not isinstance(content, dict):
        raise BadRequest(
            "A config.json is an object.",
            field="--model",
            hint="Give a Hugging Face config.json, or the name of a model: `stagecut models`.",
        )
    return architecture_from_huggingface(content, "--model")
