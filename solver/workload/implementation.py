"""How a framework lays a training step out in memory, where its settings change that.

A model's architecture and its layout leave this open: which kernels run, which copies they keep,
how wide gradients and optimizer state are. Readers of a framework's settings fill it in; the
defaults are those of Megatron-Core with Transformer Engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Dispatcher(StrEnum):
    """What brings tokens to their experts' ranks; ``AUTO`` takes what suits where those stand."""

    AUTO = "auto"
    ALL_GATHER = "allgather"
    ALL_TO_ALL = "alltoall"
    FORWARD = "forward"


@dataclass(frozen=True)
class Implementation:
    """The settings of an execution that its memory depends on.

    ``software``: the generation of software in the calibration, where the settings name it.
    ``transformer_engine``: layers are Transformer Engine's, else PyTorch's and Megatron-LM's own.
    ``fused_weight_gradient``: weight gradients are added to the fp32 ones inside their product;
    without it a 16-bit gradient of each weight exists for a moment.
    ``fused_loss``: the compiled cross entropy, which does not work in place.
    ``eager_loss``: PyTorch's own cross entropy over a copy in fp32: log-probabilities, their
    gradient and that of the copy stand side by side, all in fp32, and the freed 16-bit logits have
    a block of the allocator that nothing fits but their own gradient.
    ``attention_kernel``: flash, fused (cuDNN) or auto, which takes what suits the device.
    ``copies_attention``: the kernel chosen keeps its output in two orders of dimensions;
    ``large_workspaces``: libraries take the workspaces of recent devices. Both follow from the
    device.
    ``fused_activation``: bias, activation and gate in one kernel.
    ``deterministic``: kernels that give the same bits every time, with their fixed workspaces.
    ``grouped_experts``: a rank's experts in one grouped product, on several streams.
    ``overlapped_experts``: two micro-batches' expert exchange and compute side by side; follows
    from the training run and the layout.
    ``dispatcher``: gathers all tokens on all of the experts' ranks, or sends copies to each
    expert's rank, or a token once to each node (``solver/costs/dispatch.py``).
    ``fused_softmax``: one kernel scales, masks and normalises scores; else several, in fp32.
    ``wide_router``: the router reads an fp32 copy of its input.
    ``deferred_head_passes``: micro-batches whose weight gradient of the head waits for the end.
    ``vocabulary_multiple``: the vocabulary is padded to a multiple of this times the
    tensor-parallel size.
    ``weight_bytes``, ``gradient_bytes``, ``master_bytes``, ``first_moment_bytes`` and
    ``second_moment_bytes``: per parameter; None where the precision decides.
    ``optimizer_shards``: data-parallel ranks are divided into this many groups, each of which
    shards a whole copy of the optimizer state.
    ``separate_weights``: where weights are sharded, the 16-bit ones stand beside the fp32 ones.
    ``gathered_tables``: where weights are sharded, embedding and head stay gathered in 16 bits from
    forward to backward.
    ``update_copy_bytes`` and ``update_temporary_bytes``: per parameter, what the step of replicated
    weights works on beside the states: copies of gradients, and lists of Adam's.
    ``bucket_elements``: gradients are flattened into 16-bit buffers of so many elements, two of
    which exist at once.
    ``lagging_layers``: layers by which the host is ahead of the device at most, where the two
    tensors that tensor parallelism reduces in a layer are not handed out again until the
    collective is over.
    ``matrix_momentum``: matrices are updated from one momentum (Muon), everything else by Adam.
    ``whole_parameters``: sharded optimizer state is dealt out by parameters, not by bytes.
    """

    software: str = ""
    transformer_engine: bool = True
    fused_weight_gradient: bool = True
    fused_loss: bool = False
    eager_loss: bool = False
    attention_kernel: str = "fused"
    copies_attention: bool = False
    large_workspaces: bool = True
    fused_activation: bool = True
    deterministic: bool = False
    grouped_experts: bool = True
    overlapped_experts: bool = False
    dispatcher: Dispatcher = Dispatcher.AUTO
    fused_softmax: bool = True
    wide_router: bool = False
    deferred_head_passes: int = 0
    vocabulary_multiple: int = 128
    weight_bytes: float | None = None
    gradient_bytes: float | None = None
    master_bytes: float | None = None
    first_moment_bytes: float | None = None
    second_moment_bytes: float | None = None
    optimizer_shards: int = 1
    separate_weights: bool = False
    gathered_tables: bool = False
    update_copy_bytes: float = 0.0
    update_temporary_bytes: float = 0.0
    bucket_elements: float = 0.0
    lagging_layers: int = 0
    matrix_momentum: bool = False
    whole_parameters: bool = False


DEFAULT_IMPLEMENTATION = Implementation()
"""What is assumed of a run whose framework's settings are not given."""
