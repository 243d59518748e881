"""How near to their bound placements are, and how soon: ``python -m benchmarks.placement``.

512 nodes of 8 H100 are placed for Llama-3.1-405B, on 32 leafs that have free nodes as chance will
have it: as many as are needed, or up to 40% more; on leafs much alike, or on some with three times
as many as others, or with nearly none. Seconds are the processor's, of one core, for the whole
call; those of the first call, which loads the solver, are not counted.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solver.placement.documents import PlacementRequest
from solver.placement.place import place

LEAFS = 32
NODES = 512
LAYOUTS = ((8, 32, 16), (4, 16, 64), (8, 64, 8), (8, 8, 64), (8, 16, 32), (4, 32, 32))
"""Tensor, pipeline and data parallel."""

UNEVEN = (0.7, 0.35, 0.05)
"""Weight of the leaf with fewest free nodes against that with most."""

SPARE = (0, 40, 200)
"""Free nodes beyond those needed."""

TARGET_GAP, TARGET_SECONDS = 0.01, 2.0


@dataclass(frozen=True)
class Case:
    """A layout, and how many nodes are free on each leaf."""

    layout: tuple[int, int, int]
    free: tuple[int, ...]

    @property
    def request(self) -> PlacementRequest:
        """What is asked."""
        tensor, pipeline, data = self.layout
        return PlacementRequest.model_validate(
            {
                "job": {
                    "model": {"name": "llama-3.1-405b"},
                    "cluster": {
                        "device": "H100-SXM5-80GB",
                        "nodes": NODES,
                        "devices_per_node": 8,
                    },
                    "training": {"sequence_length": 8192, "global_batch_size": 2048},
                    "layout": {
                        "tensor_parallel": tensor,
                        "pipeline_parallel": pipeline,
                        "data_parallel": data,
                        "micro_batch_size": 1,
                    },
                },
                "nodes": [
                    {"name": f"n{leaf:02}-{node:02}", "leaf": f"leaf{leaf:02}"}
                    for leaf, count in enumerate(self.free)
                    for node in range(count)
                ],
                "time_limit_seconds": TARGET_SECONDS,
            }
        )


def cases(rounds: int, seed: int = 1) -> Iterator[Case]:
    """So many times every layout with all kinds of free nodes, the same for every run."""
    draw = random.Random(seed)
    for _ in range(rounds):
        for layout in LAYOUTS:
            for least in UNEVEN:
                for spare in SPARE:
                    yield Case(layout, _free(draw, least, NODES + spare))


def _free(draw: random.Random, least: float, total: int) -> tuple[int, ...]:
    weights = [draw.uniform(least, 1.0) for _ in range(LEAFS)]
    free = [int(total * weight / sum(weights)) for weight in weights]
    while sum(free) < total:
        free[draw.randrange(LEAFS)] += 1
    return tuple(free)


def main() -> None:
    """Place all cases and print gaps and seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="of 54 cases each")
    parser.add_argument("--each", action="store_true", help="print every case")
    options = parser.parse_args()
    gaps, seconds = [], []
    place(next(cases(1)).request)
    for case in cases(options.rounds):
        request = case.request
        started = time.process_time()
        answer = place(request)
        seconds.append(time.process_time() - started)
        assert answer.gap is not None, "there are nodes enough"
        gaps.append(answer.gap)
        if options.each:
            free = f"{sum(case.free)} free, {min(case.free)} to {max(case.free)} a leaf"
            print(f"{case.layout}  {free}: gap {answer.gap:.2%}, {seconds[-1]:.2f} s", flush=True)
    print(f"{len(gaps)} placements of {NODES} nodes on {LEAFS} unevenly free leafs")
    for name, values, unit in (("gap", 100 * np.array(gaps), "%"), ("time", seconds, " s")):
        median, high = np.percentile(values, [50, 95])
        print(
            f"{name}: median {median:.2f}{unit}, p95 {high:.2f}{unit}, most {max(values):.2f}{unit}"
        )
    within = np.mean((np.array(gaps) <= TARGET_GAP) & (np.array(seconds) <= TARGET_SECONDS))
    print(f"within {TARGET_GAP:.0%} and {TARGET_SECONDS:.0f} s: {within:.0%}")


if __name__ == "__main__":
    main()
