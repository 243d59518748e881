"""Works out the capacity curves that the elastic simulation reads: samples per second by nodes.

python examples/schedulers/make_curves.py > examples/schedulers/curves.json
"""

import json

from solver.capacity.curve import capacity
from solver.capacity.documents import CapacityRequest

MODELS = ("llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b", "llama-3.1-70b")


def curve(model: str) -> list[float]:
    """Samples per second on 1 to 16 nodes of 8 H100; 0 where nothing fits."""
    job = {
        "model": {"name": model},
        "cluster": {"device": "H100-SXM5-80GB", "devices_per_node": 8},
        "training": {"sequence_length": 4096, "global_batch_size": 256},
        "layout": {"micro_batch_size": 1, "context_parallel": 1, "zero_stage": 1},
    }
    asked = {"job": job, "nodes": {"maximum": 16}, "seconds_per_size": 60}
    points = capacity(CapacityRequest.model_validate(asked)).curves[0].points
    return [round(point.samples_per_second or 0.0, 2) for point in points]


if __name__ == "__main__":
    print(json.dumps({model: curve(model) for model in MODELS}))
