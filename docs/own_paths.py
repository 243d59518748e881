"""How often the own-paths give the makespan, over random pipelines of growing unevenness.

    python docs/own_paths.py [PIPELINES]

Stage times are drawn evenly between 1 and 1 + spread (forward) and twice that (backward), without
sends, for 2 to 16 stages and 1 to 64 micro-batches. ``docs/mathematics.md`` quotes what it prints.
"""

from __future__ import annotations

import sys

import numpy as np

from solver.partition.paths import own_paths
from solver.schedules import StageTimes, make_schedule, schedule_graph, simulate

SPREADS = (0.1, 0.2, 0.3, 0.4, 0.6, 1.0)
SHAPES = 40
EXACT = 1e-9


def shortfalls(name: str, spread: float, pipelines: int, rng: np.random.Generator) -> np.ndarray:
    """By how much the longest own-path falls short of the makespan, relative; shape (pipelines,).

    Pipelines of one shape (stages and micro-batches) are simulated together.
    """
    found = []
    for _ in range(SHAPES):
        stages, micro_batches = int(rng.integers(2, 17)), int(rng.integers(1, 65))
        schedule = make_schedule(name, stages, micro_batches)
        size = (pipelines // SHAPES, stages)
        times = StageTimes.of(
            forward=rng.uniform(1, 1 + spread, size), backward=2 * rng.uniform(1, 1 + spread, size)
        )
        makespan = simulate(schedule_graph(schedule), times).makespan
        paths = own_paths(schedule, 0.0).paths()
        longest = np.max([path.length(times) for path in paths], axis=0)
        found.append(1 - longest / makespan)
    return np.concatenate(found)


def main(pipelines: int) -> None:
    """Print a table: per schedule and spread, the share that is exact and the largest shortfall."""
    print(f"{'schedule':10}{'spread':>7}{'exact':>10}{'worst':>9}")
    for name in ("1f1b", "gpipe"):
        rng = np.random.default_rng(0)
        for spread in SPREADS:
            short = shortfalls(name, spread, pipelines, rng)
            exact = f"{(short <= EXACT).mean():.2%}"
            print(f"{name:10}{spread:>7.0%}{exact:>10}{max(short.max(), 0.0):>9.2%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
