"""The jobs of a published trace, each as the training of a model whose capacity curve is known."""

import json
import random
from pathlib import Path

HERE = Path(__file__).parent
CURVES = json.loads((HERE / "curves.json").read_text())
# By application of the trace: the model that stands for it, and its range of device-hours
# (the simulator's workload.py draws applications by device-hours of the Philly trace: below 1,
# below 10, below 100, and the rest below 1000).
SMALL, MEDIUM = ("llama-3.2-1b", 0.1, 1), ("llama-3.2-3b", 1, 10)
LARGE, EXTRA_LARGE = ("llama-3.1-8b", 10, 100), ("llama-3.1-70b", 100, 1000)
MODELS = {
    "ncf": SMALL,
    "cifar10": SMALL,
    "bert": MEDIUM,
    "deepspeech2": MEDIUM,
    "yolov3": LARGE,
    "imagenet": EXTRA_LARGE,
}


def jobs(seed):
    """Second of arrival, samples per second by nodes (from 0), and samples that are left."""
    draw = random.Random(seed)
    for line in (HERE / "pollux_workload.csv").read_text().splitlines()[3:]:
        second, application, _ = line.split(",")
        model, low, high = MODELS[application]
        curve, hours = [0.0, *CURVES[model]], low * (high / low) ** draw.random()
        least = next(nodes for nodes, rate in enumerate(curve) if rate)
        samples = hours * 3600 * curve[least] / (8 * least)
        yield {"at": float(second), "curve": curve, "nodes": 0, "ready": 0.0, "left": samples}
