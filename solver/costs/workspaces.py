"""What libraries and the framework allocate once and hold, and which kernels suit a device.

PyTorch gives each cuBLAS handle a workspace, and forward and backward run on threads with handles
of their own (aten/src/ATen/cuda/CublasHandlePool.cpp): 32 MiB from Hopper on, 8.125 MiB before;
deterministic runs fix it at 32 MiB (``CUBLAS_WORKSPACE_CONFIG=:4096:8``). Transformer Engine's own
products share one of 32 MiB from Hopper on and 4 MiB before, and grouped products have one for each
of four streams (transformer_engine/pytorch/module/base.py and cpp_extensions/gemm.py). A second
stream for compute beside expert exchange has a workspace of its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from solver.cluster.device import Device
from solver.costs.sharding import Sharding
from solver.request import AttentionKernel, Training
from solver.workload.architecture import Architecture, MixtureOfExperts
from solver.workload.implementation import Dispatcher, Implementation

_MIB = float(1 << 20)

_HOPPER = ("H100", "H200", "H800", "H20", "GH200")
_BLACKWELL_AND_LATER = ("B200", "B300", "GB200", "GB300", "Rubin")

_LARGE_WORKSPACE = 32 * _MIB
_SMALL_WORKSPACE = 8.125 * _MIB
_SMALL_ENGINE_WORKSPACE = 4 * _MIB
_ENGINE_STREAMS = 4
_THREADS = 2


@lru_cache(maxsize=256)
def on_device(implementation: Implementation, device: Device) -> Implementation:
    """The implementation with what it leaves to the device decided.

    Transformer Engine takes cuDNN's fused attention on Hopper and FlashAttention elsewhere
    (transformer_engine/pytorch/attention, get_attention_backend); the latter wants the batch first
    and so copies its output.
    """
    large = device.name.startswith(_HOPPER + _BLACKWELL_AND_LATER)
    hopper = device.name.startswith(_HOPPER)
    kernel = implementation.attention_kernel
    copies = kernel == "flash" or (kernel == "auto" and not hopper)
    return replace(
        implementation,
        copies_attention=copies,
        large_workspaces=large,
    )


def workspace_bytes(
    architecture: Architecture, training: Training, shard: Sharding, implementation: Implementation
) -> float:
    """Bytes held beside the states from the first iteration on."""
    large = implementation.large_workspaces
    one = _LARGE_WORKSPACE if large or implementation.deterministic else _SMALL_WORKSPACE
    total = (_THREADS + implementation.overlapped_experts) * one
    if implementation.transformer_engine or _has_experts(architecture):
        engine = _LARGE_WORKSPACE if large else _SMALL_ENGINE_WORKSPACE
        grouped = implementation.grouped_experts and _has_experts(architecture)
        total += engine * (1 + (_ENGINE_STREAMS if grouped else 0))
    return total + _shared_buffer(architecture, training, shard, implementation) + _batch(shard)


def _has_experts(architecture: Architecture) -> bool:
    return any(isinstance(layer.feed_forward, MixtureOfExperts) for layer, _ in architecture.layers)


def _shared_buffer(
    architecture: Architecture, training: Training, shard: Sharding, implementation: Implementation
) -> float:
    """Megatron-LM's buffer that grows to its largest use and is never freed.

    core/utils.py, GlobalMemoryBuffer. Its uses: the rows that sequence parallelism gathers before
    the head, the tokens that experts' ranks gather, and the scores of Megatron-LM's own attention.
    """
    width = 2.0 * architecture.hidden_size
    uses = [0.0]
    if shard.sequence_parallel:
        uses.append(width * shard.tokens)
    if implementation.dispatcher is Dispatcher.ALL_GATHER and _has_experts(architecture):
        ranks = shard.expert.size * shard.expert_tensor.size
        uses.append(width * shard.row_tokens * ranks if ranks > 1 else 0.0)
    if not implementation.transformer_engine and training.attention is AttentionKernel.UNFUSED:
        heads = max(layer.attention.heads for layer, _ in architecture.layers)
        pairs = shard.micro_batch * shard.sequence**2 / shard.context.size
        uses.append(2.0 * heads / shard.tensor.size * pairs)
    return max(uses)


def _batch(shard: Sharding) -> float:
    """The last micro-batch: tokens, labels, positions, loss mask, and a byte of attention mask per
    pair of tokens (pretrain_gpt.py, megatron/training/utils.py).
    """
    tokens = shard.micro_batch * shard.sequence / shard.context.size
    return tokens * (3 * 8.0 + 4.0) + tokens * shard.sequence
