"""The costs of a pipeline: what the optimisation sees, and all it sees.

A cost model (or a measured profile) describes the model as a sequence of blocks; a block is a small
graph of ops in forward order. The exact meaning of *needed*, *kept* and *recomputed* is:

- A tensor is needed if some op of its block lists it in ``backward_reads``. A needed tensor other
  than the block's input ``x`` is kept or recomputed; a tensor that nobody needs is never kept.
- Recomputing a tensor runs its op's forward once more in the backward pass. The op's inputs must be
  there: ``x``, a kept tensor, or a tensor recomputed as well (needed or not; its cost counts).
- Kept bytes of a block = ``input_bytes`` + the ``output_bytes`` of its kept tensors. Recompute
  bytes = the ``output_bytes`` of its recomputed tensors.
- Memory of a stage = states + in-flight x kept bytes + the largest over its blocks of recompute
  bytes + ``working_bytes``, plus ``reserved_bytes``; it must not exceed ``capacity_bytes``.
- Nor may states + ``update_bytes`` + the largest ``working_bytes`` of its blocks, which the
  allocator keeps, + ``reserved_bytes``: the optimizer's step, when no micro-batch is in flight.
- Where a run offloads (``solver/costs/offloading.py``), up to ``offload_bytes`` of a block's kept
  bytes wait in host memory instead, its input and parts of tensors included, and every device has
  ``staging_bytes`` for what is under way.
- Where a schedule makes the gradients of weights apart from backward, ``weight_held_bytes`` take
  the place of the kept bytes when a micro-batch's backward ends, whatever was recomputed, until
  those gradients are made.

Everything is per device, in seconds and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class OpKind(StrEnum):
    """Whether an op occupies the compute units or the links."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"


class Account(StrEnum):
    """The line of the breakdown that an op's seconds are charged to."""

    COMPUTE = "compute"
    TENSOR_PARALLEL = "tensor_parallel"
    CONTEXT_PARALLEL = "context_parallel"
    EXPERT_PARALLEL = "expert_parallel"
    DATA_PARALLEL = "data_parallel"
    PIPELINE_PARALLEL = "pipeline_parallel"


@dataclass(frozen=True)
class Op:
    """One op and the tensor it makes (both carry ``name``).

    ``inputs`` names ``x`` or earlier ops; ``backward_reads`` names the tensors that the op's
    backward reads. Seconds are for one micro-batch on one device. ``weight_seconds`` is the part of
    ``backward_seconds`` that makes the gradient of the weights; where a schedule runs it later,
    ``weight_held_bytes`` stay from the end of the backward until then. ``forward_bytes`` and
    ``backward_bytes``: temporaries alive only while the op runs. ``gradient_bytes``: the gradient
    of its output, as large as the output where None. ``window_seconds``: of a communication op, the
    part of its backward in which the compute units wait; all of it where None. ``hands_on``: its
    forward does nothing, and its output is its input.
    """

    name: str
    inputs: tuple[str, ...]
    forward_seconds: float
    backward_seconds: float
    output_bytes: float
    backward_reads: tuple[str, ...] = ()
    kind: OpKind = OpKind.COMPUTE
    account: Account = Account.COMPUTE
    forward_bytes: float = 0.0
    backward_bytes: float = 0.0
    gradient_bytes: float | None = None
    weight_seconds: float = 0.0
    weight_held_bytes: float = 0.0
    window_seconds: float | None = None
    hands_on: bool = False

    @property
    def idle_seconds(self) -> float:
        """Seconds of its backward in which other compute could run, if it is communication."""
        return self.backward_seconds if self.window_seconds is None else self.window_seconds


@dataclass(frozen=True)
class Overlapping:
    """What it costs to compute while a collective runs.

    ``slowdown``: how much longer the compute takes, at least 1. ``charge``: seconds by which one
    second of it (before that slow-down) lengthens the collective. ``apart``: on a stage that
    recomputes ahead of its backward nothing may need a tensor that only that backward's windows
    make; a profile's definition leaves that open.
    """

    slowdown: float = 1.0
    charge: float = 0.0
    apart: bool = False


@dataclass(frozen=True)
class States:
    """Bytes that live through the iteration: weights, gradients, optimizer state."""

    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0

    @property
    def total(self) -> float:
        """All three together."""
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True)
class Module:
    """A part of a block that a framework can recompute by name.

    ``dropped``: tensors that it then does not keep. ``repeated``: ops that it then runs again
    although their outputs stay, for an op outside the module reads those.
    """

    name: str
    dropped: tuple[str, ...]
    repeated: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """A block kind of the model: what any policy or the optimiser decides about.

    ``working_bytes``: temporaries alive only while this block computes, beside what it recomputes.
    ``gradient_seconds``: reducing this block's gradients over the data-parallel group, once per
    iteration, before any overlap. ``gather_seconds``: gathering its updated weights, likewise.
    ``optimizer_seconds``: updating them.
    ``checkpointable``: whether the framework policies (full, selective, uniform, block) touch it;
    the optimiser may recompute within any block.
    ``rerun_seconds``: what ``full`` costs where a framework re-runs the whole forward, including
    ops whose output nobody needs; None means only what is needed is recomputed.
    ``modules``: what the ``selective`` policy can name.
    ``step_bytes``: the part of its states that exists from the optimizer's step to the end of the
    iteration only. ``update_bytes``: what the step works on beside its states, while no micro-batch
    is in flight. ``deferred_bytes``: what each of the first ``deferred_passes`` backwards leaves
    behind for the end of the iteration, where weight gradients are computed late.
    """

    name: str
    ops: tuple[Op, ...]
    input_bytes: float
    states: States = States()
    working_bytes: float = 0.0
    gradient_seconds: float = 0.0
    gather_seconds: float = 0.0
    optimizer_seconds: float = 0.0
    checkpointable: bool = True
    rerun_seconds: float | None = None
    modules: tuple[Module, ...] = ()
    step_bytes: float = 0.0
    update_bytes: float = 0.0
    deferred_bytes: float = 0.0
    deferred_passes: int = 0

    @cached_property
    def forward_seconds(self) -> float:
        """Forward time of one micro-batch."""
        return sum(op.forward_seconds for op in self.ops)

    @cached_property
    def backward_seconds(self) -> float:
        """Backward time of one micro-batch, recompute apart."""
        return sum(op.backward_seconds for op in self.ops)

    @property
    def weight_seconds(self) -> float:
        """The part of its backward time that makes the gradients of its weights."""
        return sum(op.weight_seconds for op in self.ops)

    @property
    def weight_held_bytes(self) -> float:
        """Bytes that wait with those gradients where a schedule makes them later."""
        return sum(op.weight_held_bytes for op in self.ops)


@dataclass(frozen=True)
class Host:
    """The memory of a device's host, and the link to it, one direction; its share of either."""

    bytes_per_second: float
    memory_bytes: float


@dataclass(frozen=True)
class PipelineCosts:
    """Everything that the partition of one layout depends on.

    ``sequence`` indexes ``blocks`` in model order. ``send_seconds`` is the time of one boundary
    tensor between neighbouring stages. ``gradient_overlap`` is the fraction of a stage's last
    backward under which its gradient reduction hides, ``gather_overlap`` the same for the weight
    gather under its first forward: a stage's exposed reduction is
    ``max(0, sum(gradient_seconds) - gradient_overlap * sum(backward_seconds))``.
    ``fixed_seconds`` is a constant per iteration. ``workspace_bytes``: what libraries and the
    framework allocate once and hold, beside the states; part of the reserve.
    ``boundary_bytes``: one boundary tensor.
    ``devices``: where the devices of a pipeline differ, the same model on each of them in turn,
    with its own seconds, bytes and memory; empty where all are alike. Sends, the fixed seconds and
    the boundary stay those of the whole. ``overlapping``: what recomputing in
    windows costs. ``exchange_overlaps``: experts' tokens are exchanged beside another micro-batch's
    products. ``host``: where activations may be offloaded to; None: nowhere.
    ``offload_bytes``: per kind, the most that a block of it may have there, of one micro-batch;
    empty where nothing is offloaded. ``offload_layers``: the layers that a stage may then hold at
    most, for the host's sake; 0: any number. ``staged_blocks``: budgets of the largest block
    that a device which offloads has room for. ``staging_bytes``: what offloading takes on every
    device, a part of the reserve; so are ``buffer_bytes``, in which gradients are flattened: the
    part of which a longer pipeline takes less.
    """

    blocks: tuple[Block, ...]
    sequence: tuple[int, ...]
    micro_batches: int
    capacity_bytes: float
    send_seconds: float = 0.0
    reserved_bytes: float = 0.0
    gradient_overlap: float = 0.0
    gather_overlap: float = 0.0
    fixed_seconds: float = 0.0
    workspace_bytes: float = 0.0
    boundary_bytes: float = 0.0
    overlapping: Overlapping = Overlapping()
    exchange_overlaps: bool = False
    devices: tuple[PipelineCosts, ...] = ()
    host: Host | None = None
    offload_bytes: tuple[float, ...] = ()
    offload_layers: int = 0
    staging_bytes: float = 0.0
    staged_blocks: int = 0
    buffer_bytes: float = 0.0

    def at(self, device: int) -> PipelineCosts:
        """What the blocks cost on a device of the pipeline, counted from 0."""
        return self.devices[device] if self.devices else self

    @property
    def different(self) -> tuple[PipelineCosts, ...]:
        """The costs of every different device, in order of first appearance."""
        found: list[PipelineCosts] = []
        for one in {id(one): one for one in self.devices}.values():
            if one not in found:
                found.append(one)
        return tuple(found) or (self,)


@dataclass(frozen=True)
class Work:
    """What utilisation is measured against, for one iteration of the whole job.

    ``model_flops`` counts forward and backward without recompute; ``peak_flops`` is one device's
    dense peak at the run's precision; ``tokens`` is global batch times sequence length.
    """

    model_flops: float
    peak_flops: float
    tokens: float
    devices: int
