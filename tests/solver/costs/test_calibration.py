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
from solver.request import AttentionKernel, Training

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


def test_software_follows_from_the_layout() -> None:
    unfused = Training(attention=AttentionKernel.UNFUSED)
    assert software_of(Training(), LAYOUT) == "fused"
    assert software_of(Training(), replace(LAYOUT, zero_stage=3)) == "sharded"
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
