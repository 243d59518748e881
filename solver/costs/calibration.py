"""Efficiencies: what share of a device's peaks its kernels and links reach, and what software adds.

One data file per device family stands in ``calibration/``, one for the software generations in
``calibration/software.json``. Each value is named by its ``sources`` entry: a publication, or the
fit that made it. Nothing in the cost model's code is an efficiency.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from solver import calibrations
from solver.errors import BadRequest
from solver.layouts.layout import Layout
from solver.request import AttentionKernel, Precision, Training
from solver.workload.software import facts_of

_FOLDER = Path(__file__).parent / "calibration"

Values = dict[str, Any]
"""The content of a calibration file."""


@dataclass(frozen=True)
class DeviceEfficiency:
    """How close a device family comes to its data sheet.

    Fractions are of the data sheet's dense peak, memory bandwidth or link bandwidth.
    ``multiprocessors``: what a wave of tiles fills. ``matmul_depth``: the inner size at which a
    matrix product reaches half its rate (prologue and epilogue of the tile). ``weight_gradient``:
    rate of a product that accumulates into fp32 gradients, relative to the others.
    ``tile_exponent``: the rate of an output tile falls with this power of its size.
    ``attention_sequence``: the length at which fused attention reaches half its rate.
    ``unaligned_fraction``: rate of batched products whose rows tensor cores cannot take.
    ``exchange_fraction``: the most that an all-to-all inside a node reaches.
    ``card_sharing``: what groups get of cards that devices share (see ``Links``).
    Seconds are per kernel or per collective step.
    """

    multiprocessors: int
    matmul_fraction: float
    matmul_fraction_fp8: float
    matmul_depth: float
    weight_gradient: float
    wave_loss: float
    tile_exponent: float
    grouped_fraction: float
    attention_forward_fraction: float
    attention_backward_fraction: float
    attention_sequence: float
    attention_head_dim: float
    memory_fraction: float
    kernel_seconds: float
    intra_fraction: float
    switch_fraction: float
    exchange_fraction: float
    inter_fraction: float
    point_to_point_fraction: float
    tree_fraction: float
    card_sharing: float
    unaligned_fraction: float
    collective_base_seconds: float
    intra_hop_seconds: float
    inter_hop_seconds: float


@dataclass(frozen=True)
class SoftwareEfficiency:
    """What a generation of training software adds to the device's own times.

    ``matmul_scale``, ``attention_scale``: rates of its kernels relative to the device's best.
    ``pointwise_passes``: memory traffic of norms, activations, rotary embedding and residuals
    relative to one fused pass. ``pointwise_seconds``: time of such an op however small, for it is
    several kernels with gaps between them. ``fused_activation``: gate and product in one kernel.
    ``host_seconds``: time the host needs per op it launches; a block whose kernels are shorter
    waits for it; ``host_sharpness``: how sharply the one takes over from the other.
    ``tensor_parallel_overlap``, ``context_parallel_overlap``: share of these
    collectives hidden under products and attention. ``gradient_overlap``: share of a stage's last
    backward that can hide its gradient reduction; ``gather_overlap`` likewise for weights.
    ``overlap_slowdown``: how much longer compute takes while a collective runs beside it.
    ``gradient_bytes``: bytes per parameter in a gradient reduction under bf16.
    ``weight_gradient_bytes``: traffic per weight of accumulating one micro-batch's gradient.
    ``second_gradient``: under bf16 a 16-bit gradient is held beside the fp32 one.
    ``optimizer_passes``: memory traffic of the update relative to one fused pass.
    ``iteration_seconds``: fixed time per iteration (loader, logging, synchronisation).
    ``expert_imbalance``: load of the busiest rank over the mean of expert parallelism.
    ``expert_overlap``: of the exchange of tokens that another micro-batch's products could cover,
    the part that they hide where both run side by side.
    ``context_imbalance``: 0 where context parallelism deals the causal mask out evenly, 1 where the
    rank with the end of the sequence computes whole blocks.
    ``whole_sends``: tensor-parallel ranks each send the whole boundary tensor, not their part.
    ``send_occupancy``: share of a boundary tensor's send that keeps a stage from computing.
    ``loss_bytes``: memory traffic of the cross entropy per logit, forward and backward;
    ``loss_forward``: the forward's share of it.
    ``grouped_streams``: products of experts that run side by side; ``grouped_launch_seconds``: time
    the host needs to launch one of them.
    """

    matmul_scale: float
    attention_scale: float
    pointwise_passes: float
    pointwise_seconds: float
    fused_activation: bool
    host_seconds: float
    host_sharpness: float
    tensor_parallel_overlap: float
    context_parallel_overlap: float
    gradient_overlap: float
    gather_overlap: float
    overlap_slowdown: float
    gradient_bytes: float
    weight_gradient_bytes: float
    second_gradient: bool
    optimizer_passes: float
    iteration_seconds: float
    expert_imbalance: float
    expert_overlap: float
    context_imbalance: float
    whole_sends: bool
    send_occupancy: float
    loss_bytes: float
    loss_forward: float
    grouped_streams: float
    grouped_launch_seconds: float


@dataclass(frozen=True)
class Calibration:
    """The efficiencies of one device under one generation of software.

    ``endless``: those of work without end, of which bounds are made (``asymptote.py``).
    """

    device: DeviceEfficiency
    software: SoftwareEfficiency
    endless: bool = False


def software_of(training: Training, layout: Layout) -> str:
    """The software generation that runs such a layout.

    The request does not name it, but it follows from what it asks: sharded weights and gradients
    (ZeRO 2 and 3) run in PyTorch FSDP or DeepSpeed, layer by layer and with PyTorch's own kernels
    (``sharded``), but for fp8, of which PyTorch has none: layers are Transformer Engine's there, as
    in Megatron-LM's FSDP (``fused``); unfused attention means the Megatron-LM of 2021 and 2022,
    without communication overlap (``classic``), or with ZeRO 1 its DeepSpeed branch, which trained
    BLOOM (``deepspeed``); everything else is Megatron-Core with Transformer Engine (``fused``).
    Software that the request names may have a generation of its own.
    """
    named = facts_of(training.software).generation
    if named:
        return named
    if layout.zero_stage >= 2:
        return "fused" if training.precision is Precision.FP8 else "sharded"
    if training.attention == AttentionKernel.UNFUSED:
        return "deepspeed" if layout.zero_stage == 1 else "classic"
    return "fused"


def stages_that_cost_alike(training: Training) -> tuple[tuple[int, ...], ...]:
    """ZeRO stages under which the same software computes the same passes."""
    if facts_of(training.software).generation:
        return ((0, 1), (2,), (3,))
    unfused = training.attention == AttentionKernel.UNFUSED
    return ((0,), (1,), (2,), (3,)) if unfused else ((0, 1), (2,), (3,))


Efficiencies = Callable[[str], Calibration]
"""The calibration for a generation of software."""


@cache
def calibration(device_name: str, software: str) -> Calibration:
    """The calibration of a catalogue device; the defaults where its family was not fitted.

    A family is the file with the longest prefix of the device's name. It may also change values of
    a software generation: kernels of one generation suit one device better than another.
    """
    return assemble(_family(device_name), _read("default"), _generations(), software)


def own_calibration(own: calibrations.Calibration, device_name: str) -> Efficiencies:
    """The calibrations of a device where a caller's fit takes the place of what ships.

    Raises:
        BadRequest: The fit is of another device, or names a value that does not exist.
    """
    _check(own, device_name)
    family = _family(device_name)
    changed = {
        "values": {**family.get("values", {}), **own.values},
        "software": {
            generation: {
                **family.get("software", {}).get(generation, {}),
                **own.software.get(generation, {}),
            }
            for generation in _generations()
        },
    }
    return lambda software: assemble(changed, _read("default"), _generations(), software)


def _check(own: calibrations.Calibration, device_name: str) -> None:
    if own.device is not None and own.device != device_name:
        raise BadRequest(
            f"Calibration '{own.name}' is of {own.device}, the cluster has {device_name}.",
            field="calibration.device",
            hint="Fit one to runs on the cluster's own device, or leave `calibration` out.",
        )
    known: dict[str, tuple[dict[str, float], type[DeviceEfficiency | SoftwareEfficiency]]] = {
        "calibration.values": (own.values, DeviceEfficiency)
    }
    for generation, values in own.software.items():
        if generation not in _generations():
            raise BadRequest(
                f"There is no generation of software '{generation}'.",
                field=f"calibration.software.{generation}",
                hint=f"Known: {', '.join(_generations())}.",
            )
        known[f"calibration.software.{generation}"] = (values, SoftwareEfficiency)
    for path, (values, kind) in known.items():
        names = {entry.name for entry in fields(kind) if entry.type in ("float", "int")}
        for name in values:
            if name not in names:
                raise BadRequest(
                    f"There is no efficiency '{name}'.",
                    field=f"{path}.{name}",
                    hint=f"Known: {', '.join(sorted(names))}.",
                )


def assemble(family: Values, defaults: Values, generations: Values, software: str) -> Calibration:
    """A calibration from the contents of its data files."""
    device = {**defaults["values"], **family.get("values", {})}
    own = {**generations[software], **family.get("software", {}).get(software, {})}
    return Calibration(DeviceEfficiency(**device), SoftwareEfficiency(**own))


@cache
def shipped(device_name: str) -> calibrations.Calibration:
    """What ships for a device, as answers name it: its family, its version and its band.

    A family that no published run is of takes the band of the defaults: that of families predicted
    by a fit without any of their runs.
    """
    family, defaults = _family(device_name), _read("default")
    text = json.dumps([family, defaults, _read("software")], sort_keys=True)
    band = family.get("band") or defaults.get("band")
    return calibrations.Calibration(
        name=family_name(device_name),
        version=hashlib.sha256(text.encode()).hexdigest()[:12],
        band=calibrations.Band(**band) if band else None,
    )


def family_name(device_name: str) -> str:
    """The stem of the data file that a device's efficiencies stand in."""
    best, name = "", "default"
    for path in sorted(_FOLDER.glob("*.json")):
        for prefix in _read(path.stem).get("devices", ()):
            if device_name.startswith(prefix) and len(prefix) > len(best):
                best, name = prefix, path.stem
    return name


def shipped_content(name: str) -> Values:
    """The content of a data file: a family, ``default`` or ``software``; not to be changed."""
    return _read(name)


def _family(device_name: str) -> Values:
    return _read(family_name(device_name))


def _generations() -> Values:
    generations: Values = _read("software")["generations"]
    return generations


@cache
def _read(name: str) -> Values:
    content: Values = json.loads((_FOLDER / f"{name}.json").read_text())
    return content
