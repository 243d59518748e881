"""Collectives that one device cannot measure, taken from the cost model of a catalogue device.

The blocks of the cost model have the names of the measured ones, so a collective is put where it
stands there: behind the op whose tensor it passes on, and before those that take it.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.cluster.cluster import cluster_from_request
from solver.cluster.device import device as device_named
from solver.costs.model import pipeline_costs
from solver.costs.pipeline import Block, Op, OpKind
from solver.layouts.layout import Layout
from solver.request import Cluster, OpKindName, ProfileOp, Training
from solver.workload.architecture import Architecture


@dataclass(frozen=True)
class Collectives:
    """The cost model's blocks of one layout, by name."""

    blocks: dict[str, Block]

    @classmethod
    def of(
        cls, architecture: Architecture, training: Training, layout: Layout, device: str
    ) -> Collectives:
        """Those among devices of a catalogue device; a group shares a node where it can.

        Raises:
            UnknownName: There is no such device.
        """
        known = device_named(device, "collectives")
        nodes = -(-layout.devices // 8)
        cluster = cluster_from_request(Cluster(device=known.name, nodes=nodes, devices_per_node=8))
        costs = pipeline_costs(architecture, cluster, training, layout)
        return cls({block.name: block for block in costs.blocks})

    def joined(self, name: str, ops: list[ProfileOp]) -> list[ProfileOp]:
        """The measured ops of a block, with its collectives among them."""
        block = self.blocks.get(name)
        for op in block.ops if block is not None else ():
            if op.kind is OpKind.COMMUNICATION and op.inputs:
                ops = _with(ops, op, _takers(block, op))
        return ops


def _takers(block: Block | None, collective: Op) -> set[str]:
    assert block is not None
    return {op.name for op in block.ops if collective.name in op.inputs}


def _with(ops: list[ProfileOp], collective: Op, takers: set[str]) -> list[ProfileOp]:
    """The ops with one collective more; those that take its tensor take it from there."""
    source = collective.inputs[0]
    places = [position for position, op in enumerate(ops) if op.name == source]
    if not places:
        return ops
    passed_on = not collective.hands_on

    def taken(op: ProfileOp) -> ProfileOp:
        if not passed_on or op.name not in takers:
            return op
        change = {source: collective.name}
        return op.model_copy(
            update={
                "inputs": [change.get(name, name) for name in op.inputs],
                "backward_reads": [change.get(name, name) for name in op.backward_reads],
            }
        )

    own = ProfileOp(
        name=collective.name,
        inputs=[source],
        forward_seconds=collective.forward_seconds,
        backward_seconds=collective.backward_seconds,
        output_bytes=collective.output_bytes if passed_on else 0.0,
        kind=OpKindName.COMMUNICATION,
    )
    behind = places[0] + 1
    return [*ops[:behind], own, *(taken(op) for op in ops[behind:])]
