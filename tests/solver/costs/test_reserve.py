"""Bytes that no tensor accounts for."""

from __future__ import annotations

from dataclasses import replace

from solver.costs.reserve import reserved_bytes
from tests.solver.costs.test_activations import LAYOUT, TRAINING, reserve_of


def test_all_software_has_a_context_and_communicators() -> None:
    assert reserved_bytes() == reserved_bytes("fused") > 1e9


def test_a_reduction_buffer_is_not_larger_than_the_gradients() -> None:
    small, large, larger = (reserved_bytes("deepspeed", n, 4.0) for n in (1e6, 1e9, 1e12))
    assert small - reserved_bytes("deepspeed") == 4e6
    assert small < large == larger


def test_deepspeed_holds_more_beside_its_tensors_than_megatron() -> None:
    """Unfused attention under ZeRO 1 is DeepSpeed's, without it Megatron-LM's."""
    assert reserve_of(replace(LAYOUT, zero_stage=1), TRAINING) > 5e9 + reserve_of(LAYOUT, TRAINING)


def test_an_exchange_connects_every_two_ranks_and_leaves_gaps() -> None:
    """6.7 GB, context and collectives among them, and 2.5, with experts on 16 devices (pull request
    6429 of NVIDIA/Megatron-LM).
    """
    assert reserved_bytes(exchanges=True) == 9.2e9
    assert reserved_bytes(exchanges=True, overlaps=True) > 15e9
