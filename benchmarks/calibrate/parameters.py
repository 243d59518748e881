"""What is fitted: which efficiencies, from which prior, and how far they may move.

A parameter is fitted in a scale where any step is legal: the logarithm, or for shares below one the
log-odds. Its prior is the value in ``prior/``, which names its source; ``spread`` is the standard
deviation around it in that scale. Whatever is not listed stays at its prior.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.calibrate.predict import Case
from solver.costs.calibration import Calibration, Values, assemble

PRIOR = Path(__file__).parent / "prior"
SHARED = ("default", "software")
FAMILIES = ("a100", "h100", "h100-hbm2e", "b200", "gb200", "gb300")


@dataclass(frozen=True)
class Parameter:
    """One fitted value: the file it stands in and the path to it."""

    file: str
    path: tuple[str, ...]
    spread: float
    share: bool = False

    @property
    def name(self) -> str:
        """As the report prints it."""
        return f"{self.file}: {'.'.join(self.path)}"

    def read(self, content: dict[str, Values]) -> float:
        """The value in the fit's scale."""
        values = content[self.file]
        for key in self.path:
            values = values[key]
        value = float(values)  # type: ignore[arg-type]
        return math.log(value / (1.0 - value)) if self.share else math.log(value)

    def write(self, content: dict[str, Values], scaled: float) -> None:
        """Set the value from the fit's scale."""
        values = content[self.file]
        for key in self.path[:-1]:
            values = values[key]
        growth = math.exp(scaled)
        values[self.path[-1]] = growth / (1.0 + growth) if self.share else growth

    def concerns(self, case: Case) -> bool:
        """Whether a run's prediction depends on it."""
        if self.file == "default":
            return True
        if self.file == "software":
            return self.path[1] == case.software
        if self.file != case.family:
            return False
        if self.path[0] == "software":
            return self.path[1] == case.software
        return "fp8" not in self.path[-1] or case.run.request.training.precision == "fp8"


def parameters() -> tuple[Parameter, ...]:
    """All fitted values."""
    return tuple(_parameters())


def _parameters() -> Iterator[Parameter]:
    for family, spread in zip(FAMILIES, (0.1, 0.1, 0.15, 0.05, 0.1, 0.1), strict=True):
        yield Parameter(family, ("values", "matmul_fraction"), spread)
    for family, spread in zip(FAMILIES[1:], (0.1, 0.2, 0.1, 0.1, 0.1), strict=True):
        yield Parameter(family, ("values", "matmul_fraction_fp8"), spread)
    for family, spread in (("h100", 0.15), ("b200", 0.1), ("gb200", 0.15)):
        yield Parameter(family, ("values", "attention_forward_fraction"), spread)
        yield Parameter(family, ("values", "attention_backward_fraction"), spread)
    for family in ("a100", "h100"):
        yield Parameter(family, ("values", "inter_fraction"), 0.1)
        yield Parameter(family, ("software", "sharded", "matmul_scale"), 0.15)
    for family in ("a100", "h100", "b200", "gb200"):
        yield Parameter(family, ("values", "intra_fraction"), 0.15)
    yield Parameter("h100", ("software", "sharded", "attention_scale"), 0.3)
    yield Parameter("h100-hbm2e", ("software", "fused", "attention_scale"), 0.2)
    yield Parameter("h100-hbm2e", ("software", "fused", "context_imbalance"), 0.3)
    for name, spread in (
        ("matmul_depth", 0.15),
        ("attention_sequence", 0.5),
        ("attention_head_dim", 0.5),
        ("weight_gradient", 0.03),
        ("memory_fraction", 0.05),
        ("intra_hop_seconds", 0.3),
        ("inter_hop_seconds", 0.3),
        ("kernel_seconds", 0.3),
        ("grouped_fraction", 0.1),
        ("card_sharing", 0.5),
    ):
        yield Parameter("default", ("values", name), spread)
    yield Parameter("default", ("values", "wave_loss"), 0.5, share=True)
    for generation, name, spread in (
        ("classic", "pointwise_passes", 0.2),
        ("classic", "pointwise_seconds", 0.5),
        ("classic", "host_seconds", 0.5),
        ("classic", "overlap_slowdown", 0.4),
        ("classic", "send_occupancy", 0.5),
        ("classic", "loss_bytes", 0.2),
        ("deepspeed", "pointwise_passes", 0.3),
        ("deepspeed", "pointwise_seconds", 0.5),
        ("deepspeed", "host_seconds", 0.7),
        ("deepspeed", "matmul_scale", 0.15),
        ("deepspeed", "send_occupancy", 0.5),
        ("sharded", "pointwise_passes", 0.5),
        ("sharded", "attention_scale", 0.3),
        ("sharded", "overlap_slowdown", 0.4),
        ("sharded", "loss_bytes", 0.4),
        ("sharded", "optimizer_passes", 0.4),
        ("fused", "pointwise_passes", 0.2),
        ("fused", "pointwise_seconds", 0.25),
        ("fused", "host_seconds", 0.3),
        ("fused", "overlap_slowdown", 0.4),
        ("fused", "send_occupancy", 0.5),
        ("fused", "loss_bytes", 0.3),
    ):
        yield Parameter("software", ("generations", generation, name), spread)
    yield Parameter("software", ("generations", "fused", "tensor_parallel_overlap"), 0.7, True)


def prior() -> dict[str, Values]:
    """The contents of the prior's files."""
    return {name: json.loads((PRIOR / f"{name}.json").read_text()) for name in SHARED + FAMILIES}


def moved(
    content: dict[str, Values], fitted: tuple[Parameter, ...], scaled: list[float]
) -> dict[str, Values]:
    """A copy of ``content`` with the parameters at these values."""
    changed = copy.deepcopy(content)
    for parameter, value in zip(fitted, scaled, strict=True):
        parameter.write(changed, value)
    return changed


def calibration_of(case: Case, content: dict[str, Values]) -> Calibration:
    """The efficiencies of a run's device and software."""
    return assemble(
        content.get(case.family, {}),
        content["default"],
        content["software"]["generations"],
        case.software,
    )
