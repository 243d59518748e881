"""Kernels: a roofline that knows tiles, waves and how long rows are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cluster.cluster import Cluster
from solver.cluster.device import device
from solver.costs.calibration import calibration
from solver.costs.machine import Machine
from solver.costs.model import machine_of
from solver.request import Precision, Training


def _machine(name: str = "H100-SXM5-80GB", precision: Precision = Precision.BF16) -> Machine:
    unit = device(name)
    cluster = Cluster(unit, 1, 8, unit.memory_bytes, unit.inter_node_bytes_per_second, 8)
    return machine_of(cluster, Training(precision=precision), calibration(name, "fused"))


H100 = _machine()
dimensions = st.integers(16, 20000)


def test_a_large_product_runs_at_the_calibrated_share_of_the_peak() -> None:
    size = 16384
    rate = 2.0 * size**3 / H100.product(size, size, size)
    assert rate == pytest.approx(H100.peak * H100.calibration.device.matmul_fraction, rel=0.05)


def test_a_thin_product_is_bound_by_memory() -> None:
    rows, inner = 16, 16384
    least = 2.0 * inner * inner / H100.bandwidth
    assert H100.product(rows, inner, inner) > least
    assert H100.product(rows, inner, inner) < 2 * least


def test_one_tile_more_than_a_wave_costs_more_than_its_share() -> None:
    machine = replace(
        H100,
        calibration=replace(
            H100.calibration, device=replace(H100.calibration.device, multiprocessors=128)
        ),
    )
    full = machine.product(128 * 128, 256, 8192)
    spilled = machine.product(129 * 128, 256, 8192)
    assert spilled > full * 1.1


@given(m=dimensions, n=dimensions, k=dimensions)
def test_no_product_beats_the_roofline(m: int, n: int, k: int) -> None:
    seconds = H100.product(m, n, k)
    assert seconds >= 2.0 * m * n * k / H100.peak
    assert seconds >= 2.0 * (m * k + k * n + m * n) / H100.bandwidth


@given(m=dimensions, n=dimensions, k=dimensions)
def test_twice_the_inner_size_never_takes_less_time(m: int, n: int, k: int) -> None:
    assert H100.product(m, n, 2 * k) >= H100.product(m, n, k)


def test_fp8_speeds_linear_layers_up_but_less_than_twice() -> None:
    faster = _machine(precision=Precision.FP8)
    plain = H100.linear(8192, 8192, 8192)
    assert plain / 2 < faster.linear(8192, 8192, 8192) < plain


def test_fp8_changes_nothing_on_a_device_without_it() -> None:
    shape = (8192, 8192, 8192)
    plain = _machine("A100-SXM4-80GB").linear(*shape)
    assert _machine("A100-SXM4-80GB", Precision.FP8).linear(*shape) == plain


def test_attention_is_faster_per_flop_on_long_sequences_and_wide_heads() -> None:
    flops = 1e12
    short = H100.attention(flops, 1024, 128, backward=False)
    assert H100.attention(flops, 16384, 128, backward=False) < short
    assert H100.attention(flops, 1024, 64, backward=False) > short
