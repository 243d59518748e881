"""Plans of small models for every framework, which tests read back in different ways."""

from __future__ import annotations

from functools import cache
from unittest.mock import patch

from solver.plan import Plan
from solver.planner import plan
from solver.request import PlanRequest
from solver.targets.planned import layers_of
from solver.targets.written import written


def request(framework: str) -> PlanRequest:
    """Llama 3.2 1B, 16 layers, on four devices that are too small to keep everything."""
    return PlanRequest.model_validate(
        {
            "model": {"name": "llama-3.2-1b"},
            "cluster": {
                "device": "RTX4090",
                "nodes": 1,
                "devices_per_node": 4,
                "memory_bytes": 1.7e10,
            },
            "training": {"sequence_length": 4096, "global_batch_size": 32},
            "layout": {
                "tensor_parallel": 1,
                "pipeline_parallel": 4,
                "data_parallel": 1,
                "micro_batch_size": 2,
            },
            "target": {"framework": framework},
        }
    )


@cache
def made(framework: str) -> Plan:
    """The best plan that the framework can run; what other restrictions cost is not asked."""
    with patch("solver.finished.prices", return_value=[]):
        return plan(request(framework))


def text_of(framework: str) -> str:
    """Its configuration, which says all that the plan decides."""
    export = written(made(framework), framework, request(framework).training)
    assert export.exact
    assert export.text
    return export.text


def expected_layers(framework: str) -> list[int]:
    """Layers of its stages, in model order."""
    layers = [layers_of(stage) for stage in made(framework).stages]
    assert sum(layers) == 16
    assert min(layers[1:-1]) > 0, "only an end of the model may stand alone"
    return layers


def interleaved() -> Plan:
    """A plan in full recompute, which every framework that interleaves can run."""
    return interleaved_for("torchtitan")


@cache
def interleaved_for(
    framework: str, memory_bytes: float = 40.0, layers: int = 7, overlap: str | None = None
) -> Plan:
    """Measured layers and the model's ends on two devices with two chunks each."""
    op = {"name": "t", "inputs": ["x"], "forward_seconds": 1.0, "backward_seconds": 2.0}
    op |= {"output_bytes": 4.0, "backward_reads": ["x", "t"]}
    block = {"state_bytes": 1.0, "input_bytes": 1.0, "ops": [op]}
    end = block | {"ops": [op | {"output_bytes": 0.0, "forward_seconds": 0.1}]}
    sequence = [["embedding", 1], ["layer", layers], ["head", 1]]
    found = plan(
        PlanRequest.model_validate(
            {
                "model": {
                    "profile": {
                        "blocks": {"embedding": end, "layer": block, "head": end},
                        "sequence": sequence,
                    }
                },
                "cluster": {"memory_bytes": memory_bytes},
                "training": {"global_batch_size": 4},
                "layout": {"pipeline_parallel": 2, "virtual_stages": 2, "micro_batch_size": 1},
                "target": {"framework": framework},
                "recompute": {"overlap": overlap},
            }
        )
    )
    assert len(found.stages) == 4
    assert found.restriction is not None
    return found


def interleaved_layers() -> list[int]:
    """Layers of its stages, in model order."""
    layers = [layers_of(stage) for stage in interleaved().stages]
    assert sum(layers) == 7
    return layers
