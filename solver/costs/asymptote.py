"""Efficiencies of work without end: no latencies, no starts of kernels, no half-filled waves.

Under them every op takes at most as long as under the device's own, and its time per token does not
grow with the number of tokens. Bounds of many layouts are made of that. An exchange beside products
hides as if these were long enough.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from solver.costs.calibration import Calibration, Efficiencies


def asymptotic(efficiencies: Efficiencies) -> Efficiencies:
    """The same efficiencies without anything that is paid per kernel, step or block."""
    return cache(lambda software: _asymptotic(efficiencies(software)))


def _asymptotic(found: Calibration) -> Calibration:
    return Calibration(
        device=replace(
            found.device,
            wave_loss=0.0,
            kernel_seconds=0.0,
            collective_base_seconds=0.0,
            intra_hop_seconds=0.0,
            inter_hop_seconds=0.0,
        ),
        software=replace(
            found.software,
            pointwise_seconds=0.0,
            host_seconds=0.0,
            grouped_launch_seconds=0.0,
        ),
        endless=True,
    )
