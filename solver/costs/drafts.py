"""Blocks in two steps: what a micro-batch takes, and what a layout's replicas and stages add.

The kernels and collectives of a block's passes do not depend on how many replicas there are, how
states are sharded over them or how many stages there are. So a *draft* is made once for all layouts
that agree in the rest, and completing it for one of them is a little arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from solver.costs.graph import ELEMENT, Graph
from solver.costs.machine import Machine
from solver.costs.overheads import sharded_weights, stage_boundary
from solver.costs.pipeline import Block, Module, Op, States
from solver.costs.sharding import Sharding
from solver.costs.states import Parameters, states, step_bytes, update_bytes, upkeep
from solver.request import Precision, Training
from solver.workload.implementation import Implementation


@dataclass(frozen=True)
class Draft:
    """A block without its states and whatever moves them, and without its part in sends.

    The fields are those of ``Block``; ``parameters`` are those on one device.
    """

    name: str
    ops: tuple[Op, ...]
    parameters: Parameters
    input_bytes: float
    working_bytes: float
    checkpointable: bool
    rerun_seconds: float
    modules: tuple[Module, ...]
    deferred_bytes: float


@dataclass(frozen=True)
class Completion:
    """Makes blocks of drafts under one layout.

    ``boundary_seconds``: the share of one layer in what sends between stages keep from computing.
    ``software``: the generation that runs them.
    """

    training: Training
    shard: Sharding
    machine: Machine
    hidden: int
    boundary_seconds: float
    implementation: Implementation
    software: str

    def block(self, draft: Draft) -> Block:
        """The block: with states and their movement, and its share of a stage's boundary."""
        parameters, shard, training = draft.parameters, self.shard, self.training
        graph = Graph(self.machine, shard, self.hidden, self.implementation)
        moved, held = sharded_weights(graph, draft.ops, parameters.total)
        boundary = stage_boundary(self.boundary_seconds) if draft.checkpointable else ()
        up = upkeep(parameters, training, shard, self.machine)
        return Block(
            name=draft.name,
            ops=(*draft.ops, *moved, *boundary) if moved or boundary else draft.ops,
            input_bytes=draft.input_bytes,
            states=self._states(parameters),
            working_bytes=draft.working_bytes + held,
            gradient_seconds=up.gradient_seconds,
            gather_seconds=up.gather_seconds,
            optimizer_seconds=up.optimizer_seconds,
            checkpointable=draft.checkpointable,
            rerun_seconds=draft.rerun_seconds,
            modules=draft.modules,
            step_bytes=step_bytes(parameters, training, shard, self.implementation),
            update_bytes=update_bytes(
                parameters, training, shard, self.software, self.implementation
            ),
            deferred_bytes=draft.deferred_bytes,
            deferred_passes=self.implementation.deferred_head_passes,
        )

    def _states(self, parameters: Parameters) -> States:
        """The block's states, with the 16-bit gradient that some software holds beside the fp32 one
        that it is added to (DeepSpeed, runtime/bf16_optimizer.py).
        """
        held = states(parameters, self.training, self.shard, self.implementation)
        twice = self.machine.calibration.software.second_gradient
        if twice and self.training.precision is Precision.BF16:
            return replace(held, gradients=held.gradients + ELEMENT * parameters.total)
        return held
