"""What is fitted to published runs: which efficiencies, from which prior, how far they may move.

A parameter's prior is the value in ``prior/``, which names its source. Whatever is not listed stays
at its prior.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from solver.calibrate.parameters import Content, Parameter

PRIOR = Path(__file__).parent / "prior"
SHARED = ("default", "software")
FAMILIES = ("a100", "h100", "h100-hbm2e", "b200", "gb200", "gb300")


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


def prior() -> Content:
    """The contents of the prior's files."""
    return {name: json.loads((PRIOR / f"{name}.json").read_text()) for name in SHARED + FAMILIES}
