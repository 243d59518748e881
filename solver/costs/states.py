"""Weights, gradients and optimizer state of a block on one device, and the time to keep them.

Bytes per parameter follow Megatron-LM's table (docs: distributed optimizer), d being the size of
the group over which the state is replicated:

    precision            replicated    distributed (ZeRO 1)
    bf16, fp8 compute    18            6 + 12 / d
    fp16                 20            4 + 16 / d
    fp32                 16            8 + 8 / d

ZeRO 2 shards the gradients as well, ZeRO 3 everything (Rajbhandari et al. 2020, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.cluster.collectives import Group, all_gather, all_reduce, reduce_scatter
from solver.costs import reserve
from solver.costs.machine import Machine
from solver.costs.pipeline import States
from solver.costs.sharding import Sharding
from solver.request import Optimizer, Precision, Training
from solver.workload.implementation import DEFAULT_IMPLEMENTATION, Implementation


@dataclass(frozen=True)
class Parameters:
    """Parameters of a block on one device, dense ones and those of routed experts.

    ``matrices``: they are weight matrices but for a few, not tables.
    """

    dense: float
    expert: float = 0.0
    matrices: bool = True

    @property
    def total(self) -> float:
        """Both together."""
        return self.dense + self.expert


@dataclass(frozen=True)
class Upkeep:
    """Seconds per iteration that a block's states cost, before any overlap."""

    gradient_seconds: float
    gather_seconds: float
    optimizer_seconds: float


def states(
    parameters: Parameters,
    training: Training,
    shard: Sharding,
    implementation: Implementation = DEFAULT_IMPLEMENTATION,
) -> States:
    """The bytes that live through the iteration.

    Megatron-LM's sharded data parallelism gathers layer by layer; tables, which belong to no layer,
    stay gathered (megatron/core/distributed/fsdp). Where optimizer state is dealt out by whole
    parameters, the fullest rank holds a table's (core/optimizer/layer_wise_optimizer.py).
    """
    weights = gradients = optimizer = 0.0
    for count, group in _shares(parameters, shard):
        size = max(1, shard.shards(group).size // implementation.optimizer_shards)
        if implementation.whole_parameters and not parameters.matrices:
            size = 1
        moments = 1 if parameters.matrices and implementation.matrix_momentum else 2
        one = _bytes(training, shard.zero_stage, size, implementation, moments)
        weights += one.weights * count
        if implementation.separate_weights and shard.zero_stage == 3 and not parameters.matrices:
            weights += _weight_bytes(training, implementation) * count
        if implementation.gathered_tables and shard.zero_stage == 3 and not parameters.matrices:
            weights += 2.0 * count
        gradients += one.gradients * count
        optimizer += one.optimizer * count
    return States(weights, gradients, optimizer)


def step_bytes(
    parameters: Parameters,
    training: Training,
    shard: Sharding,
    implementation: Implementation = DEFAULT_IMPLEMENTATION,
) -> float:
    """The fp32 copies of 16-bit gradients, which live from the step to the next clearing.

    Megatron-LM, core/optimizer/optimizer.py and distrib_optimizer.py: the copy of an fp32 gradient
    is the gradient itself.
    """
    if training.precision is Precision.FP32 or _gradient_bytes(training, implementation) == 4.0:
        return 0.0
    total = 0.0
    for count, group in _shares(parameters, shard):
        shards = max(1, shard.shards(group).size // implementation.optimizer_shards)
        total += 4.0 * count / (shards if shard.zero_stage else 1)
    return total


def update_bytes(
    parameters: Parameters,
    training: Training,
    shard: Sharding,
    software: str,
    implementation: Implementation = DEFAULT_IMPLEMENTATION,
) -> float:
    """What the step works on beside the states: that of sharded software (see ``reserve``), or of
    replicated weights where the software is known (``Implementation``).
    """
    copies = training.precision is not Precision.FP32
    adam = training.optimizer is Optimizer.ADAM
    if shard.runs_sharded:
        one = reserve.update_bytes(software, copies=copies, adam=adam)
    else:
        one = implementation.update_copy_bytes if copies else 0.0
        one += implementation.update_temporary_bytes if adam else 0.0
    if one == 0.0:
        return 0.0
    return sum(
        one * n / (shard.shards(group).size if shard.zero_stage else 1)
        for n, group in _shares(parameters, shard)
    )


def upkeep(parameters: Parameters, training: Training, shard: Sharding, machine: Machine) -> Upkeep:
    """Gradient reduction, weight gather and optimizer step, once per iteration.

    Under ZeRO 2 and 3 weights and gradients move with every micro-batch instead; that stands
    among the block's ops.
    """
    software, links = machine.calibration.software, machine.links
    weight = _weight_bytes(training)
    gradient = weight if training.precision is Precision.FP16 else software.gradient_bytes
    reduction = gather = touched = 0.0
    for count, group in _shares(parameters, shard):
        shards = shard.shards(group)
        own = count if shard.zero_stage == 0 else count / shards.size
        if shard.zero_stage == 0:
            reduction += all_reduce(gradient * count, group, links)
        elif not shard.runs_sharded:
            reduction += reduce_scatter(gradient * count, shards, links)
            reduction += all_reduce(gradient * own, shard.copies(group), links)
            gather += all_gather(weight * count, shards, links)
        swept = own if shard.runs_sharded else count
        touched += _optimizer_traffic(training) * own + _gradient_sweeps(training) * swept
    seconds = machine.stream(touched * software.optimizer_passes) if touched else 0.0
    return Upkeep(reduction, gather, seconds)


def _shares(parameters: Parameters, shard: Sharding) -> list[tuple[float, Group]]:
    shares = [(parameters.dense, shard.data)]
    if parameters.expert:
        shares.append((parameters.expert, shard.expert_data))
    return shares


def _weight_bytes(
    training: Training, implementation: Implementation = DEFAULT_IMPLEMENTATION
) -> float:
    if implementation.weight_bytes is not None:
        return implementation.weight_bytes
    return 4.0 if training.precision is Precision.FP32 else 2.0


def _gradient_bytes(training: Training, implementation: Implementation) -> float:
    if implementation.gradient_bytes is not None:
        return implementation.gradient_bytes
    return 2.0 if training.precision is Precision.FP16 else 4.0


def _bytes(
    training: Training, zero_stage: int, size: int, implementation: Implementation, moments: int
) -> States:
    """Bytes per parameter by kind; Muon keeps one moment of a matrix, Adam always two."""
    gradient = _gradient_bytes(training, implementation)
    weight = _weight_bytes(training, implementation)
    master = 0.0
    if training.precision is not Precision.FP32:
        master = _or(implementation.master_bytes, 4.0)
        # The step works on fp32 copies of narrower gradients.
        master += 0.0 if gradient == 4.0 else 4.0
    optimizer = master + _or(implementation.first_moment_bytes, 4.0)
    if training.optimizer is Optimizer.ADAM and moments == 2:
        optimizer += _or(implementation.second_moment_bytes, 4.0)
    if zero_stage >= 1:
        optimizer /= size
    if zero_stage >= 2:
        gradient /= size
    if zero_stage == 3:
        # The sharded fp32 copy is the weight itself; the 16-bit one lives for a layer at a time.
        weight = weight / size if implementation.separate_weights else 0.0
    return States(weight, gradient, optimizer)


def _optimizer_traffic(training: Training) -> float:
    """Bytes per owned parameter that the update reads and writes.

    Adam reads gradient, master weight and both moments, and writes the last three and the 16-bit
    weight: 16 + 14 bytes (Kingma and Ba 2015, algorithm 1; apex FusedAdam).
    """
    return 30.0 if training.optimizer is Optimizer.ADAM else 22.0


def _gradient_sweeps(training: Training) -> float:
    """Bytes per held parameter for clearing the gradients and taking their norm."""
    return 8.0 if training.precision is not Precision.FP16 else 4.0


def _or(width: float | None, usual: float) -> float:
    return usual if width is None else width
