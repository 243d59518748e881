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

from solver.cluster.device import Device
from solver.costs.sharding import Sharding
from solver.request import AttentionKernel, Training
from solver.workload.architecture import Architecture, MixtureOfExperts
from solver.workload.implementation import Implementation

_MIB = float(1 << 20)

_HOPPER = ("H100", "H200", "H800", "H20", "GH200")
_BLACKWELL_AND_LATER = ("B200", "B300", "GB200", "GB300", "Rubin")

_LARGE_WORKSPACE = 32 * _MIB
_SMALL_WORKSPACE = 8.125 * _MIB
_SMALL_ENGINE_WORKSPACE = 4 * _MIB
_ENGINE_STREAMS = 4
_THREADS = 2


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
    if implementation.transformer_engine:
        engine = _LARGE_WORKSPACE if large else _SMALL_ENGINE_WORKSPACE
        grouped = implementation.grouped_experts and _has_experts(architecture)
        total += engine * (1 + (_ENGINE_STREAMS if grouped else 0))
    elif training.attention is AttentionKernel.UNFUSED:
        total += _scores_buffer(architecture, shard)
    if shard.sequence_parallel:
        total += 2.0 * shard.tokens * architecture.hidden_size
    return total + _batch_bytes(shard)


def _has_experts(architecture: Architecture) -> bool:
    return any(isinstance(layer.feed_forward, MixtureOfExperts) for layer, _ in architecture.layers)


def _scores_buffer(architecture: Architecture, shard: Sharding) -> float:
    """Megatron-LM's own attention adds its scores to a buffer that it never frees.

    core/transformer/dot_product_attention.py; as large as one layer's scores.
    """
    heads = max(layer.attention.heads for layer, _ in architecture.layers) / shard.tensor.size
    return 2.0 * shard.micro_batch * heads * shard.sequence**2 / shard.context.size


def _batch_bytes(shard: Sharding) -> float:
    """The last micro-batch: tokens, labels, positions, loss mask, and unless fused attention needs
    none a byte of attention mask per pair of tokens (pretrain_gpt.py, megatron/training/utils.py).
    """
    tokens = shard.micro_batch * shard.sequence / shard.context.size
    return tokens * (3 * 8.0 + 4.0) + tokens * shard.sequence
