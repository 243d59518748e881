"""The cost model: an architecture on a cluster under a layout, as pipeline costs.

The sequence is the embedding, the transformer layers in order, one block kind per distinct layer,
and the head. Everything is per device and per micro-batch unless a name says otherwise.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from solver.cluster.cluster import Cluster
from solver.cluster.collectives import Links, all_gather, all_reduce
from solver.costs.blocks import Builder
from solver.costs.calibration import Calibration, Efficiencies, calibration, software_of
from solver.costs.drafts import Completion, Draft
from solver.costs.exchange_overlap import exchange_overlaps
from solver.costs.held_back import held_back_bytes
from solver.costs.machine import Machine
from solver.costs.pipeline import Host, Overlapping, PipelineCosts, Work
from solver.costs.reserve import gradient_buffer_bytes, reserved_bytes
from solver.costs.sharding import Sharding, sharding
from solver.costs.workspaces import on_device, workspace_bytes
from solver.layouts.layout import Layout
from solver.request import Precision, Training
from solver.workload.architecture import (
    Architecture,
    Attention,
    LatentAttention,
    Layer,
    MixtureOfExperts,
)
from solver.workload.implementation import Implementation
from solver.workload.parameters import attention_parameters, parameters
from solver.workload.software import implementation_of

Granularity = Literal["layer", "half"]


def pipeline_costs(
    architecture: Architecture,
    cluster: Cluster,
    training: Training,
    layout: Layout,
    granularity: Granularity = "layer",
    efficiencies: Efficiencies | None = None,
    implementation: Implementation | None = None,
    stages: int | None = None,
) -> PipelineCosts:
    """Seconds and bytes of every block under ``layout``, on one device and per micro-batch.

    Args:
        architecture: The model.
        cluster: The devices and how they are joined.
        training: Sequence length, batch, precision, attention, optimizer.
        layout: A complete, legal layout.
        granularity: Whole layers, or attention and MLP halves as blocks of their own (layers whose
            halves run side by side stay whole).
        efficiencies: Other ones than ship for this device.
        implementation: The framework's settings that memory depends on; those of
            ``training.software`` if absent.
        stages: Devices of a pipeline that stand on this cluster, where the others stand elsewhere.
    """
    side_by_side = exchange_overlaps(training, layout)
    if implementation is None:
        implementation = implementation_of(training, layout.zero_stage)
    implementation = replace(
        on_device(implementation, cluster.device), overlapped_experts=side_by_side
    )
    software = implementation.software or software_of(training, layout)
    found = efficiencies(software) if efficiencies else calibration(cluster.device.name, software)
    machine = machine_of(cluster, training, found)
    shard = sharding(training, layout, cluster.domain_size, cluster.devices_per_switch, stages)
    generation = found.software
    boundary = 2.0 * shard.row_tokens * architecture.hidden_size
    send_seconds = _send_seconds(boundary, shard, machine, layout)
    stages_per_layer = layout.pipeline_parallel * layout.virtual_stages / architecture.num_layers
    boundary_seconds = generation.send_occupancy * send_seconds * stages_per_layer
    completion = Completion(
        training,
        shard,
        machine,
        architecture.hidden_size,
        boundary_seconds / 2 if granularity == "half" else boundary_seconds,
        implementation,
        software,
    )
    drafts, sequence = _drafts(
        architecture,
        _block_terms(training),
        shard.of_passes,
        machine,
        layout.pipeline_parallel > 1,
        granularity,
        implementation,
    )
    held_back = held_back_bytes(architecture, layout, shard, implementation)
    return PipelineCosts(
        blocks=tuple(map(completion.block, drafts)),
        sequence=sequence,
        micro_batches=layout.micro_batches(training.global_batch_size or 1),
        capacity_bytes=cluster.memory_bytes,
        send_seconds=send_seconds,
        reserved_bytes=_reserve(architecture, training, layout, software) + held_back,
        buffer_bytes=_buffer(architecture, training, layout, software) + held_back,
        gradient_overlap=_overlap(generation.gradient_overlap, training),
        gather_overlap=_overlap(generation.gather_overlap, training),
        fixed_seconds=generation.iteration_seconds
        + _tied_embedding_seconds(architecture, layout, shard, machine),
        workspace_bytes=workspace_bytes(architecture, training, shard, implementation),
        boundary_bytes=boundary,
        overlapping=_overlapping(),
        exchange_overlaps=side_by_side,
        host=_host(cluster),
    )


def work(architecture: Architecture, cluster: Cluster, training: Training, layout: Layout) -> Work:
    """The model's arithmetic in one iteration, for utilisation.

    Forward is 2 FLOPs per weight that a token passes plus attention over the unmasked pairs;
    backward twice that (Narayanan et al. 2021, appendix, with the causal half left out).
    """
    sequence = training.sequence_length or 1
    tokens = float(training.global_batch_size or 1) * sequence
    hidden = architecture.hidden_size
    forward = 2.0 * hidden * architecture.vocabulary_size
    for layer, count in architecture.layers:
        forward += count * _layer_flops(layer, hidden, sequence)
    return Work(
        model_flops=3.0 * forward * tokens,
        peak_flops=_peak(cluster, training, layout),
        tokens=tokens,
        devices=layout.devices,
    )


def _peak(cluster: Cluster, training: Training, layout: Layout) -> float:
    """One device's peak; of stages on several pools, the mean."""
    if not cluster.pools:
        return cluster.device.matmul_flops(training.precision)
    peaks = [
        cluster.pools[pool].device.matmul_flops(training.precision) * stages
        for pool, stages in layout.stage_pools
    ]
    return sum(peaks) / layout.pipeline_parallel


def machine_of(cluster: Cluster, training: Training, found: Calibration) -> Machine:
    """The device and its links at the rates that ``found`` says they reach."""
    device, efficiency = cluster.device, found.device
    intra = device.intra_node_bytes_per_second
    links = Links(
        node=cluster.domain_size,
        intra_bandwidth=intra * efficiency.intra_fraction,
        switch_bandwidth=intra * efficiency.switch_fraction,
        exchange_bandwidth=intra * min(efficiency.intra_fraction, efficiency.exchange_fraction),
        inter_bandwidth=cluster.inter_node_bytes_per_second * efficiency.inter_fraction,
        point_to_point_bandwidth=device.pair_bytes_per_second * efficiency.point_to_point_fraction,
        base=efficiency.collective_base_seconds,
        intra_hop=efficiency.intra_hop_seconds,
        inter_hop=efficiency.inter_hop_seconds,
        tree_bandwidth=efficiency.tree_fraction,
        mesh=device.mesh,
        card_sharing=efficiency.card_sharing if _cards_are_shared(cluster) else 1.0,
        uplinks=tuple(
            cluster.inter_node_bytes_per_second * efficiency.inter_fraction * level.share
            for level in cluster.switches
        ),
    )
    half = training.precision if training.precision is Precision.FP32 else Precision.BF16
    fp8 = device.fp8_flops
    return Machine(
        peak=device.matmul_flops(half),
        peak_fp8=fp8 or device.half_flops,
        bandwidth=device.memory_bytes_per_second,
        memory_bytes=cluster.memory_bytes,
        links=links,
        calibration=found,
        fp8=training.precision is Precision.FP8 and fp8 is not None,
    )


def _reserve(
    architecture: Architecture, training: Training, layout: Layout, software: str
) -> float:
    """What one device holds beside its tensors."""
    return reserved_bytes(
        software,
        *_gradients(architecture, training, layout),
        exchanges=layout.expert_parallel > 1,
        overlaps=exchange_overlaps(training, layout),
    )


def _buffer(architecture: Architecture, training: Training, layout: Layout, software: str) -> float:
    """The part of it that is smaller in a longer pipeline."""
    return gradient_buffer_bytes(software, *_gradients(architecture, training, layout))


def _gradients(
    architecture: Architecture, training: Training, layout: Layout
) -> tuple[float, float]:
    """How many one device has, and the bytes of one."""
    shards = layout.tensor_parallel * layout.pipeline_parallel
    return parameters(architecture) / shards, 2.0 if training.precision is Precision.FP16 else 4.0


def _overlap(usual: float, training: Training) -> float:
    """The share of a pass that hides data-parallel communication: all or none where it is said."""
    asked = training.overlap_data_parallel
    return usual if asked is None else float(asked)


def _cards_are_shared(cluster: Cluster) -> bool:
    """Whether a node has fewer cards than devices: each has at most half of its usual share."""
    usual = cluster.device.inter_node_bytes_per_second
    return cluster.inter_node_bytes_per_second <= usual / 2


def _send_seconds(boundary: float, shard: Sharding, machine: Machine, layout: Layout) -> float:
    """One boundary tensor between neighbouring stages.

    Tensor-parallel ranks hold the same rows unless sequence parallelism splits them; each then
    sends its part only and the receivers gather them (Narayanan et al. 2021, section 4.1).
    """
    if layout.pipeline_parallel == 1:
        return 0.0
    whole = shard.tensor.size == 1 or machine.calibration.software.whole_sends
    if shard.sequence_parallel or whole:
        return shard.send(boundary, machine.links)
    part = shard.send(boundary / shard.tensor.size, machine.links)
    return part + all_gather(boundary, shard.tensor, machine.links)


def _block_terms(training: Training) -> Training:
    """The training run as far as blocks depend on it: the global batch does not enter."""
    return training.model_copy(update={"global_batch_size": None})


@lru_cache(maxsize=1024)
def _drafts(
    architecture: Architecture,
    training: Training,
    shard: Sharding,
    machine: Machine,
    piped: bool,
    granularity: Granularity,
    implementation: Implementation,
) -> tuple[tuple[Draft, ...], tuple[int, ...]]:
    """The block kinds and the sequence that indexes them."""
    builder = Builder(architecture, training, shard, machine, piped, implementation)
    blocks = [builder.embedding()]
    sequence = [0]
    kinds: dict[Layer, tuple[int, ...]] = {}
    several = len({layer for layer, _ in architecture.layers}) > 1
    for layer, count in architecture.layers:
        if layer not in kinds:
            name = f"layer_{len(kinds) + 1}" if several else "layer"
            made = _layer_blocks(builder, name, layer, granularity)
            kinds[layer] = tuple(range(len(blocks), len(blocks) + len(made)))
            blocks.extend(made)
        sequence.extend(kinds[layer] * count)
    if architecture.multi_token_prediction:
        sequence.extend([len(blocks)] * architecture.multi_token_prediction)
        blocks.append(builder.prediction(architecture.layers[-1][0]))
    sequence.append(len(blocks))
    blocks.append(builder.head())
    return tuple(blocks), tuple(sequence)


def _layer_blocks(
    builder: Builder, name: str, layer: Layer, granularity: Granularity
) -> tuple[Draft, ...]:
    if granularity == "half" and not layer.parallel_residual:
        return builder.halves(name, layer)
    return (builder.layer(name, layer),)


def _tied_embedding_seconds(
    architecture: Architecture, layout: Layout, shard: Sharding, machine: Machine
) -> float:
    """Summing the tied table's gradients between the first and the last stage.

    Megatron-LM, core/distributed/finalize_model_grads.py; fp32 gradients, two ranks.
    """
    if not architecture.tied_embeddings or layout.pipeline_parallel == 1:
        return 0.0
    table = architecture.vocabulary_size * architecture.hidden_size / layout.tensor_parallel
    return all_reduce(4.0 * table, shard.pair, machine.links)


def _layer_flops(layer: Layer, hidden: int, sequence: int) -> float:
    """Forward FLOPs of one token in one layer."""
    attention = layer.attention
    weights = float(attention_parameters(attention, hidden))
    if isinstance(attention, LatentAttention):
        widths = attention.nope_head_dim + attention.rope_head_dim + attention.value_head_dim
        pairs = sequence / 2
    else:
        widths = 2 * attention.head_dim
        pairs = _seen(attention, sequence)
    part = layer.feed_forward
    matrices = 3 if part.gated else 2
    if isinstance(part, MixtureOfExperts):
        active = part.experts_per_token * part.hidden + part.shared_hidden
        weights += hidden * (part.experts + matrices * active)
    else:
        weights += matrices * hidden * part.hidden
    return 2.0 * weights + 2.0 * pairs * widths * attention.heads


def _seen(attention: Attention, sequence: int) -> float:
    """Keys that a query sees on average."""
    window = attention.window
    if window is None or window >= sequence:
        return sequence / 2
    return window - window * window / (2 * sequence)


def _host(cluster: Cluster) -> Host | None:
    """What a device's host has for activations: what the request states, or what is to be had of
    the usual; see the sources in the file.
    """
    share = cluster.host
    if share is None or share.bytes_per_second is None:
        return None
    values = _values("offload.json")
    reached = {
        "bytes_per_second": values["link_fraction"],
        "memory_bytes": values["memory_fraction"],
    }
    return Host(
        **{
            name: getattr(share, name) * (1.0 if name in share.stated else fraction)
            for name, fraction in reached.items()
        }
    )


@cache
def _values(name: str) -> dict[str, float]:
    path = Path(__file__).parent / "calibration" / name
    values: dict[str, float] = json.loads(path.read_text())["values"]
    return values


@cache
def _overlapping() -> Overlapping:
    """What recomputing beside a collective costs; see the sources in the file.

    While a second of recompute takes ``compute_slowdown`` seconds, the collective beside it loses
    ``collective_slowdown`` - 1 of each of them.
    """
    values = _values("overlap.json")
    slowdown = values["compute_slowdown"]
    charge = slowdown * (values["collective_slowdown"] - 1.0)
    return Overlapping(slowdown, charge, apart=True)
