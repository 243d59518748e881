"""Seconds of single kernels on one device: matrix products, attention, memory-bound ops.

A roofline with the efficiencies of a :class:`~solver.costs.calibration.Calibration`: a kernel takes
the longer of its arithmetic and its memory traffic, plus a fixed start and tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from solver.cluster.collectives import Links
from solver.costs.calibration import Calibration

_TILES = ((256, 128), (128, 256), (128, 128), (64, 128))
"""Output tiles of cuBLAS and CUTLASS tensor-core products (rows, columns), largest first."""


@dataclass(frozen=True)
class Machine:
    """One device with its links, and how well software drives them.

    ``peak``: dense 16-bit FLOP/s; ``peak_fp8`` likewise; ``bandwidth``: memory bytes per second.
    ``fp8``: linear layers run in fp8.
    """

    peak: float
    peak_fp8: float
    bandwidth: float
    memory_bytes: float
    links: Links
    calibration: Calibration
    fp8: bool = False

    @property
    def weight_gradient_bytes(self) -> float:
        """Traffic per weight of adding one micro-batch's gradient."""
        return self.calibration.software.weight_gradient_bytes

    def product(self, m: int, n: int, k: int, batch: int = 1, out_bytes: float = 2.0) -> float:
        """Seconds of ``batch`` 16-bit products of (m, k) by (k, n)."""
        return _product(self, m, n, k, batch, out_bytes, False)

    def linear(self, m: int, n: int, k: int, out_bytes: float = 2.0) -> float:
        """Seconds of a linear layer's product, in fp8 where the run uses it.

        fp8 adds casting both operands: read 2 bytes, write 1 (Transformer Engine, fp8 primer).
        """
        if not self.fp8:
            return _product(self, m, n, k, 1, out_bytes, False)
        return _product(self, m, n, k, 1, out_bytes, True) + self.stream(3.0 * m * k)

    def grouped(self, m: int, n: int, k: int, groups: int, out_bytes: float = 2.0) -> float:
        """Seconds of the same for each of ``groups`` experts.

        Each is a kernel of its own, a few of them side by side on as many streams: what is left
        over of their last waves is filled by those only (transformer_engine/pytorch/
        cpp_extensions/gemm.py).
        """
        software, device = self.calibration.software, self.calibration.device
        together = min(groups, round(software.grouped_streams))
        turns = groups / together
        seconds = turns * _product(self, m, n, k, together, out_bytes, self.fp8)
        casts = self.stream(3.0 * m * k * groups) if self.fp8 else 0.0
        return seconds / device.grouped_fraction + casts

    def stream(self, size_bytes: float) -> float:
        """Seconds of a kernel that only moves ``size_bytes`` to or from memory."""
        device = self.calibration.device
        return device.kernel_seconds + size_bytes / (self.bandwidth * device.memory_fraction)

    def pointwise(self, size_bytes: float) -> float:
        """The same for norms, activations and the like, in as many passes as the software takes."""
        software = self.calibration.software
        return software.pointwise_seconds + self.stream(size_bytes * software.pointwise_passes)

    def attention(self, flops: float, sequence: int, head_dim: int, backward: bool) -> float:
        """Seconds of fused attention that does ``flops`` (masked half left out).

        The rate grows with the sequence, as blocks on the diagonal do masked work and short rows
        leave the pipeline empty, and with the head dimension, as softmax work per product falls
        (FlashAttention-2, arXiv:2307.08691, sections 3.2 and 4.1, figures 4 to 6).
        """
        device = self.calibration.device
        fraction = (
            device.attention_backward_fraction if backward else device.attention_forward_fraction
        )
        rate = self.peak * fraction * self.calibration.software.attention_scale
        rate *= sequence / (sequence + device.attention_sequence)
        rate *= min(1.0, math.pow(head_dim / 128, device.attention_head_dim))
        return device.kernel_seconds + flops / rate


@lru_cache(maxsize=65536)
def _product(
    machine: Machine, m: int, n: int, k: int, batch: int, out_bytes: float, fp8: bool
) -> float:
    """Seconds of a batch of products: the better of the tile shapes, against memory traffic.

    Tiles are dealt to the multiprocessors in waves; the part of the last wave that idles is lost
    (NVIDIA, Matrix Multiplication Background User's Guide, wave and tile quantisation), or partly
    saved by splitting the inner dimension (stream-K, arXiv:2301.03598): ``wave_loss``. A tile of
    inner size k runs at k / (k + depth) of the rate, for its prologue and epilogue.
    """
    device, software = machine.calibration.device, machine.calibration.software
    fraction = device.matmul_fraction_fp8 if fp8 else device.matmul_fraction
    peak = machine.peak_fp8 if fp8 else machine.peak
    rate = peak * fraction * software.matmul_scale / device.multiprocessors
    largest = _TILES[0][0] * _TILES[0][1]
    best = math.inf
    for rows, columns in _TILES:
        tiles = math.ceil(m / rows) * math.ceil(n / columns) * batch
        waves = tiles / device.multiprocessors
        waves += device.wave_loss * (math.ceil(waves) - waves)
        # Smaller tiles re-read their operands more often and reach a lower rate.
        small = min(1.0, (rows * columns / largest) ** device.tile_exponent)
        work = 2.0 * rows * columns * (k + device.matmul_depth)
        best = min(best, waves * work / (rate * small))
    element = 1.0 if fp8 else 2.0
    traffic = batch * (element * (m * k + k * n) + out_bytes * m * n)
    memory = traffic / (machine.bandwidth * device.memory_fraction)
    return device.kernel_seconds + max(best, memory)
