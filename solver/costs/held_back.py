"""Bytes that named software's allocator cannot hand out again though their tensors are done with.

Parts of the reserve; nothing of it for software that is not named.
"""

from __future__ import annotations

from solver.costs.graph import ELEMENT
from solver.costs.sharding import Sharding
from solver.layouts.layout import Layout
from solver.workload.architecture import Architecture
from solver.workload.implementation import Implementation
from solver.workload.parameters import parameters

_REDUCED_TENSORS = 2
"""Tensors that tensor parallelism reduces in a layer's forward: attention's and the MLP's."""

_BUFFERS = 2
"""One is filled while the other is reduced."""


def held_back_bytes(
    architecture: Architecture, layout: Layout, shard: Sharding, implementation: Implementation
) -> float:
    """On one device.

    A tensor that a collective reads on a stream of its own is handed out again only when the host
    sees the collective over (PyTorch, c10/cuda/CUDACachingAllocator.h, recordStream). The host is
    ahead of the device by as many kernels as its queue takes, so the tensors reduced in so many
    layers wait at once.
    """
    total = 0.0
    if shard.tensor.size > 1:
        layers = min(
            -(-architecture.num_layers // layout.pipeline_parallel), implementation.lagging_layers
        )
        rows = ELEMENT * shard.tokens * architecture.hidden_size
        total += layers * _REDUCED_TENSORS * rows
    own = parameters(architecture) / (layout.tensor_parallel * layout.pipeline_parallel)
    return total + _BUFFERS * ELEMENT * min(own, implementation.bucket_elements)
