"""A model's blocks measured one after the other, as a request that plans them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch

from profiler import blocks
from profiler.clock import Clock
from profiler.collectives import Collectives
from profiler.laid import Laid, Setting
from profiler.measure import measured_ops
from solver.costs.reserve import reserved_bytes
from solver.costs.sharding import sharding
from solver.costs.states import Parameters, states
from solver.errors import BadRequest
from solver.layouts.layout import Layout
from solver.request import (
    Cluster,
    LayoutRequest,
    Model,
    PlanRequest,
    Precision,
    Profile,
    ProfileBlock,
    Training,
)
from solver.workload.architecture import Architecture, Layer

DTYPES = {
    Precision.BF16: torch.bfloat16,
    Precision.FP16: torch.float16,
    Precision.FP32: torch.float32,
}

OnBlock = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What to measure, and what is to be planned with it.

    ``layers``: how many the planned model has; the architecture's own number if None.
    ``data_parallel``: replicas over which ZeRO 1 shards the optimizer's state.
    ``memory_bytes``: of one device; what it has, less the reserve, if None.
    ``collectives``: a catalogue device, whose links' seconds stand for those of the collectives.
    """

    architecture: Architecture
    layers: int | None = None
    sequence_length: int = 4096
    micro_batch_size: int = 1
    tensor_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1
    pipeline_parallel: int = 4
    micro_batches: int = 32
    precision: Precision = Precision.BF16
    memory_bytes: float | None = None
    send_seconds: float = 0.0
    collectives: str | None = None
    device: str | None = None
    repeats: int = 10


@dataclass(frozen=True)
class Measured:
    """The request, and what it was measured on."""

    request: PlanRequest
    device: str


def profiled(asked: Asked, on_block: OnBlock = lambda _: None) -> Measured:
    """Measure embedding, every kind of layer, and head.

    Raises:
        BadRequest: The device, the precision or a size cannot be measured.
    """
    setting = _setting(asked)
    clock = Clock(setting.device)
    training, layout = _training(asked), _layout(asked)
    shard = sharding(training, layout, asked.tensor_parallel)
    architecture = asked.architecture
    collectives = (
        Collectives({})
        if asked.collectives is None
        else Collectives.of(architecture, training, layout, asked.collectives)
    )
    hidden = blocks.hidden_states(setting)
    found: dict[str, ProfileBlock] = {}

    def measure(name: str, laid: Laid, x: torch.Tensor) -> None:
        on_block(name)
        held = states(_parameters(laid), training, shard)
        found[name] = ProfileBlock(
            state_bytes=held.total,
            input_bytes=float(x.untyped_storage().nbytes()),
            ops=collectives.joined(name, measured_ops(laid, x, clock, asked.repeats)),
        )

    try:
        tokens = blocks.tokens(architecture, setting)
        measure("embedding", blocks.embedding(architecture, setting), tokens)
        names: dict[Layer, str] = {}
        sequence = [("embedding", 1)]
        runs = _runs(asked)
        several = len({layer for layer, _ in runs}) > 1
        for layer, count in runs:
            if layer not in names:
                names[layer] = f"layer_{len(names) + 1}" if several else "layer"
                laid = blocks.layer(layer, architecture.positions, setting)
                measure(names[layer], laid, hidden)
            sequence.append((names[layer], count))
        measure("head", blocks.head(architecture, setting), hidden)
    except torch.OutOfMemoryError as error:
        raise BadRequest(
            f"The layer does not fit the device: {str(error).splitlines()[0]}",
            hint="Measure a smaller micro-batch or more tensor-parallel devices.",
        ) from None
    profile = Profile(
        blocks=found,
        sequence=[*sequence, ("head", 1)],
        pipeline_send_seconds=asked.send_seconds,
    )
    return Measured(_request(asked, profile, setting.device), _name(setting.device))


def _setting(asked: Asked) -> Setting:
    dtype = DTYPES.get(asked.precision)
    if dtype is None:
        raise BadRequest(
            f"Layers are not measured in {asked.precision}.",
            field="precision",
            hint=f"Measure in {', '.join(DTYPES)}.",
        )
    return Setting(
        asked.architecture.hidden_size,
        asked.sequence_length,
        asked.micro_batch_size,
        asked.tensor_parallel,
        asked.expert_parallel,
        dtype,
        _device(asked.device),
    )


def _device(name: str | None) -> torch.device:
    if name is None:
        here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return here or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise BadRequest(
            f"PyTorch cannot use a device {name[:80]!r}: {str(error).splitlines()[0]}",
            field="device",
            hint="Name one such as cuda, cuda:1 or cpu; without it the accelerator is taken.",
        ) from None
    return device


def _runs(asked: Asked) -> list[tuple[Layer, int]]:
    """Runs of equal layers; shortened from the end, or the last one lengthened."""
    runs = list(asked.architecture.layers)
    if asked.layers is None:
        return runs
    found, left = [], asked.layers
    for position, (layer, count) in enumerate(runs):
        taken = left if position == len(runs) - 1 else min(count, left)
        if taken:
            found.append((layer, taken))
        left -= taken
    return found


def _training(asked: Asked) -> Training:
    return Training(
        sequence_length=asked.sequence_length, global_batch_size=1, precision=asked.precision
    )


def _layout(asked: Asked) -> Layout:
    return Layout(
        tensor_parallel=asked.tensor_parallel,
        pipeline_parallel=asked.pipeline_parallel,
        context_parallel=1,
        expert_parallel=asked.expert_parallel,
        data_parallel=asked.data_parallel,
        virtual_stages=1,
        micro_batch_size=asked.micro_batch_size,
        sequence_parallel=False,
        zero_stage=1,
        schedule="1f1b",
    )


def _parameters(laid: Laid) -> Parameters:
    """What the measured modules hold; experts apart, for fewer ranks replicate them."""
    total = laid.parameter_count
    routed = sum(
        one.numel() for name in ("expert_in", "expert_out") for one in laid.parameters.get(name, ())
    )
    return Parameters(total - routed, routed)


def _request(asked: Asked, profile: Profile, device: torch.device) -> PlanRequest:
    stages = min(asked.pipeline_parallel, sum(count for _, count in profile.sequence))
    return PlanRequest(
        model=Model(profile=profile),
        cluster=Cluster(memory_bytes=asked.memory_bytes or _memory(device)),
        training=Training(global_batch_size=asked.micro_batches),
        layout=LayoutRequest(pipeline_parallel=stages),
    )


def _memory(device: torch.device) -> float:
    """Bytes for states and activations: a profile's request has no reserve of its own."""
    if device.type == "cpu":
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    _, total = torch.accelerator.get_memory_info(device)
    return float(total) - reserved_bytes()


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
