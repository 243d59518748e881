"""The device table: complete, in SI, sourced."""

from __future__ import annotations

import pytest

from solver.cluster.device import device, devices
from solver.errors import BadRequest, UnknownName


def test_rates_are_in_si_units() -> None:
    h100 = device("H100-SXM5-80GB")
    assert h100.half_flops == pytest.approx(989.4e12)
    assert h100.memory_bytes_per_second == pytest.approx(3350e9)
    assert h100.intra_node_bytes_per_second == pytest.approx(450e9)
    assert h100.inter_node_bytes_per_second == pytest.approx(50e9)


def test_usable_memory_is_what_a_framework_sees_where_that_is_known() -> None:
    assert device("H100-SXM5-80GB").memory_bytes == pytest.approx(79.11 * 2**30)
    assert device("Ascend-910A").memory_bytes == 32e9


@pytest.mark.parametrize("name", devices())
def test_every_row_is_plausible_and_sourced(name: str) -> None:
    row = device(name)
    assert row.name == name
    assert row.source
    assert row.confidence in {"high", "medium"}
    assert 1e14 <= row.half_flops <= 1e16
    assert row.half_flops <= row.matmul_flops("fp8")
    assert 10e9 <= row.memory_bytes <= 500e9
    assert row.memory_bytes_per_second >= 5e11
    assert row.pair_bytes_per_second > 0
    assert row.inter_node_bytes_per_second <= 200e9
    assert row.scale_up_size >= 1
    if row.measured_half_flops is not None:
        assert 0.5 * row.half_flops < row.measured_half_flops <= row.half_flops


def test_fp8_falls_back_to_half_precision_and_unknown_fp32_is_refused() -> None:
    assert device("A100-SXM4-80GB").matmul_flops("fp8") == pytest.approx(312e12)
    assert device("A100-SXM4-80GB").matmul_flops("fp32") == pytest.approx(19.5e12)
    with pytest.raises(BadRequest) as error:
        device("Ascend-910A").matmul_flops("fp32")
    assert error.value.field == "training.precision"


def test_pairwise_wired_devices_are_known_as_such() -> None:
    assert device("MI300X").mesh
    assert device("Ascend-910B").mesh
    assert not device("H100-SXM5-80GB").mesh
    assert not device("RTX4090").mesh


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("h100", "H100-SXM5-80GB"),
        ("A100 80GB", "A100-SXM4-80GB"),
        ("ascend910b", "Ascend-910B"),
        ("gb200", "GB200-NVL72"),
    ],
)
def test_an_unknown_name_gets_close_ones(name: str, meant: str) -> None:
    with pytest.raises(UnknownName) as error:
        device(name)
    assert error.value.field == "cluster.device"
    assert error.value.hint is not None
    assert meant in error.value.hint
