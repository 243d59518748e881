"""Layer times of Korthikanti et al. 2022, table 4: one layer of 22B, t = 8, b = 4, A100.

Milliseconds: forward 7.7 and backward 11.9 with tensor parallelism, 7.2 and 11.8 with sequence
parallelism as well; with full recompute backward takes 19.5.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.costs.pipeline import Block
from solver.recompute.policies import selective
from tests.solver.costs.test_activations import LAYOUT, blocks

TENSOR = replace(LAYOUT, sequence_parallel=False)
TOLERANCE = 0.09
"""The paper's A100s were faster forward than those of the other runs that are fitted to; backward
and recompute agree within 4%.
"""


def _layer(sequence_parallel: bool) -> Block:
    return blocks(LAYOUT if sequence_parallel else TENSOR)["layer"]


@pytest.mark.parametrize(
    ("sequence_parallel", "forward", "backward"),
    [(False, 7.7e-3, 11.9e-3), (True, 7.2e-3, 11.8e-3)],
)
def test_forward_and_backward_are_as_measured(
    sequence_parallel: bool, forward: float, backward: float
) -> None:
    layer = _layer(sequence_parallel)
    assert layer.forward_seconds == pytest.approx(forward, rel=TOLERANCE)
    assert layer.backward_seconds == pytest.approx(backward, rel=0.04)


def test_full_recompute_adds_a_forward() -> None:
    layer = _layer(False)
    assert layer.rerun_seconds is not None
    assert layer.backward_seconds + layer.rerun_seconds == pytest.approx(19.5e-3, rel=TOLERANCE)


@pytest.mark.parametrize(("sequence_parallel", "backward"), [(False, 13.2e-3), (True, 13.1e-3)])
def test_selective_recompute_adds_attention(sequence_parallel: bool, backward: float) -> None:
    layer = _layer(sequence_parallel)
    again = selective(layer, ("core_attn",)).seconds
    assert again == pytest.approx(1.3e-3, rel=TOLERANCE)
    assert layer.backward_seconds + again == pytest.approx(backward, rel=0.04)


def test_sequence_parallelism_speeds_up_what_tensor_parallelism_repeats() -> None:
    assert _layer(True).forward_seconds < _layer(False).forward_seconds
