"""Descriptions of networks, as people and sources write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cluster.fabric import bytes_per_second

USUAL = 50e9


@pytest.mark.parametrize(
    ("text", "gigabytes"),
    [
        ("400 Gb/s InfiniBand per GPU", 50),
        ("400G RDMA per GPU", 50),
        ("400G/GPU", 50),
        ("NVL72 + 400G/GPU", 50),
        ("NVL72 + 800G/GPU", 100),
        ("NVLink 900 GB/s, 200 Gbps per device", 25),
        ("4x100G Omni-Path/node", 6.25),
        ("800 Gb/s InfiniBand per node", 12.5),
        ("8x200G HDR IB", 25),
        ("8x400G EFA/IB (Ultra-Scale Playbook cluster)", 50),
        ("8x400G NDR IB (reference)", 50),
        ("8x400G", 50),
        ("RoCE 8x200G/node (1600 Gbps)", 25),
        ("8 × 200 Gbit/s", 25),
        ("400G x 8", 50),
        ("1.6 Tb/s per node", 25),
        ("3.2Tbps", 50),
        ("25 GB/s per NPU", 25),
        ("2x100GbE", 3.125),
        ("8x NDR", 50),
        ("4x HDR200 per node", 12.5),
    ],
)
def test_stated_rates_become_bytes_per_second_of_one_device(text: str, gigabytes: float) -> None:
    assert bytes_per_second(text, 8, USUAL) == pytest.approx(gigabytes * 1e9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not stated",
        "not stated (H100 cluster)",
        "single node NVLink5",
        "H100 80GB",
        "0 Gb/s",
        "NVLink 900 GB/s",
        "InfiniBand",
    ],
)
def test_a_text_without_a_rate_says_nothing(text: str) -> None:
    assert bytes_per_second(text, 8, USUAL) is None


def test_a_rate_without_owner_is_the_devices_if_it_is_near_the_usual_else_the_nodes() -> None:
    assert bytes_per_second("200Gb/s HDR InfiniBand", 8, USUAL) == pytest.approx(25e9)
    assert bytes_per_second("100 Gbps Ethernet", 8, USUAL) == pytest.approx(12.5e9 / 8)


def test_a_nodes_rate_is_shared_by_its_devices() -> None:
    assert bytes_per_second("800 Gb/s per node", 4, USUAL) == pytest.approx(25e9)


@given(st.text(max_size=500))
def test_any_text_is_read_or_passed_over(text: str) -> None:
    rate = bytes_per_second(text, 8, USUAL)
    assert rate is None or rate > 0
