"""Requests for tests: a profile small enough to plan by hand, and random ones."""

from __future__ import annotations

from typing import Any

from solver.costs.pipeline import Block, PipelineCosts
from solver.request import PlanRequest

HAND: dict[str, Any] = {
    "model": {
        "profile": {
            "blocks": {
                "layer": {
                    "state_bytes": 10.0,
                    "input_bytes": 1.0,
                    "ops": [
                        {
                            "name": "norm",
                            "inputs": ["x"],
                            "forward_seconds": 1.0,
                            "backward_seconds": 1.0,
                            "output_bytes": 2.0,
                            "backward_reads": ["x"],
                        },
                        {
                            "name": "product",
                            "inputs": ["norm"],
                            "forward_seconds": 2.0,
                            "backward_seconds": 4.0,
                            "output_bytes": 3.0,
                            "backward_reads": ["norm", "product"],
                        },
                    ],
                }
            },
            "sequence": [["layer", 4]],
            "pipeline_send_seconds": 0.5,
        }
    },
    "cluster": {"memory_bytes": 1e6},
    "training": {"global_batch_size": 3},
    "layout": {"pipeline_parallel": 2},
}
"""Four layers of F = 3 and B = 5 that need norm (2 bytes) and product (3 bytes)."""


def hand(memory_bytes: float = 1e6, **changes: Any) -> PlanRequest:
    """The profile to plan by hand, with another memory or other parts of the request."""
    return PlanRequest.model_validate(
        {**HAND, "cluster": {"memory_bytes": memory_bytes}, **changes}
    )


def small(name: str = "llama-3.2-1b", **changes: Any) -> PlanRequest:
    """A small model on one node, its layout to be searched."""
    return PlanRequest.model_validate(
        {
            "model": {"name": name},
            "cluster": {"device": "RTX4090", "nodes": 1, "devices_per_node": 4},
            "training": {"sequence_length": 4096, "global_batch_size": 8},
            **changes,
        }
    )


def profile_request(costs: PipelineCosts, schedule: str, stages: int) -> dict[str, Any]:
    """The request that asks for these costs; all its numbers survive JSON."""
    names = [costs.blocks[kind].name for kind in costs.sequence]
    used = [block for block in costs.blocks if block.name in names]
    return {
        "model": {
            "profile": {
                "blocks": {block.name: _profile_block(block) for block in used},
                "sequence": [[name, 1] for name in names],
                "pipeline_send_seconds": costs.send_seconds,
            }
        },
        "cluster": {"memory_bytes": costs.capacity_bytes},
        "training": {"global_batch_size": costs.micro_batches},
        "layout": {"pipeline_parallel": stages, "schedule": schedule},
        "solver": {"relative_gap": 0.0},
    }


def _profile_block(block: Block) -> dict[str, Any]:
    return {
        "state_bytes": block.states.total,
        "input_bytes": block.input_bytes,
        "ops": [
            {
                "name": op.name,
                "inputs": list(op.inputs),
                "forward_seconds": op.forward_seconds,
                "backward_seconds": op.backward_seconds,
                "output_bytes": op.output_bytes,
                "backward_reads": list(op.backward_reads),
                "kind": op.kind.value,
                "weight_seconds": op.weight_seconds,
                "weight_held_bytes": op.weight_held_bytes,
            }
            for op in block.ops
        ],
    }
