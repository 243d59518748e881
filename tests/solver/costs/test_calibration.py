"""Efficiencies: chosen by device and software, each with its source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from solver.costs import calibration as efficiencies
from solver.costs.calibration import calibration, family_name, software_of
from solver.layouts.layout import Layout
from solver.planner import evaluate
from solver.request import AttentionKernel, PlanRequest, Precision, Training

FOLDER = Path(efficiencies.__file__).parent / "calibration"
FILES = sorted(FOLDER.glob("*.json"))
LAYOUT = Layout(1, 1, 1, 1, 8, 1, 1, False, 1, "1f1b")


def _values(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Every value: the full key its source may stand under, and the plain one."""
    found = [(name, name) for name in content.get("values", {})]
    for section in ("software", "generations"):
        for group, values in content.get(section, {}).items():
            found += [(f"{group}.{name}", name) for name in values]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_value_names_its_source(path: Path) -> None:
    content = json.loads(path.read_text())
    missing = [
        full for full, name in _values(content) if not {full, name} & set(content["sources"])
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("device", "family"),
    [
        ("A800-SXM4-80GB", "a100"),
        ("H200-SXM5-141GB", "h100"),
        ("H100-SXM5-96GB-HBM2e", "h100-hbm2e"),
        ("GB200-NVL72", "gb200"),
        ("Ascend-910B", "ascend"),
        ("Trainium2", "default"),
    ],
)
def test_the_longest_prefix_decides_the_family(device: str, family: str) -> None:
    assert family_name(device) == family


def test_a_sharded_run_in_fp8_takes_what_megatron_bridge_measured() -> None:
    """NVIDIA-NeMo/Megatron-Bridge@067f987, performance summary, container 25.11: Llama 3 8B under
    FSDP, 14451 tokens per second and device.
    """
    request = {
        "model": {"name": "llama-3.1-8b"},
        "cluster": {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 8},
        "training": {"sequence_length": 8192, "global_batch_size": 128, "precision": "fp8"},
        "layout": {
            "tensor_parallel": 1,
            "pipeline_parallel": 1,
            "data_parallel": 8,
            "micro_batch_size": 1,
            "zero_stage": 3,
        },
        "recompute": {"policy": "none"},
    }
    found = evaluate(PlanRequest.model_validate(request))
    assert found.tokens_per_second_per_device == pytest.approx(14451, rel=0.05)


def test_software_follows_from_the_layout() -> None:
    unfused = Training(attention=AttentionKernel.UNFUSED)
    assert software_of(Training(), LAYOUT) == "fused"
    assert software_of(Training(), replace(LAYOUT, zero_stage=3)) == "sharded"
    fp8 = Training(precision=Precision.FP8)
    assert software_of(fp8, replace(LAYOUT, zero_stage=3)) == "fused"
    assert software_of(unfused, LAYOUT) == "deepspeed"
    assert software_of(unfused, replace(LAYOUT, zero_stage=0)) == "classic"


@pytest.mark.parametrize("software", ["fused", "classic", "deepspeed", "sharded"])
@pytest.mark.parametrize("device", ["A100-SXM4-80GB", "H100-SXM5-80GB", "MI300X", "Trainium2"])
def test_no_fitted_share_exceeds_the_data_sheet(device: str, software: str) -> None:
    found = calibration(device, software)
    for name in ("matmul_fraction", "memory_fraction", "intra_fraction", "wave_loss"):
        assert 0.0 < getattr(found.device, name) <= 1.0, name
    for name in ("tensor_parallel_overlap", "gradient_overlap", "context_imbalance"):
        assert 0.0 <= getattr(found.software, name) <= 1.0, name
