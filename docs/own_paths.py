"""How near formulas for 1F1B come to its makespan, over random pipelines of growing unevenness.

    python docs/own_paths.py

Stage times are drawn evenly between 1 and 1 + spread (forward) and twice that (backward), without
sends, for 2 to 16 stages and up to 64 micro-batches, at least as many as stages. The makespan is
the simulator's. ``docs/mathematics.md`` quotes what is printed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solver.partition.paths import own_paths
from solver.schedules import StageTimes, make_schedule, schedule_graph, simulate

Floats = npt.NDArray[np.float64]

SPREADS = (0.1, 0.2, 0.3, 0.4, 0.6, 1.0)
SHAPES = 40
PIPELINES = 200
EXACT = 1e-9


def three_phases(times: StageTimes, micro_batches: int) -> Floats:
    """AdaPipe's recurrence (Sun et al. 2024): warm-up, steady phase and drain, added up."""
    stages = times.forward.shape[1]
    warm_up, drain = times.forward[:, -1], times.backward[:, -1]
    steady = warm_up + drain
    for stage in reversed(range(stages - 1)):
        forward, backward = times.forward[:, stage], times.backward[:, stage]
        ahead = stages - stage - 1
        following = drain + times.forward[:, stage + 1]
        warm_up = forward + np.maximum(warm_up + times.backward[:, stage + 1], ahead * forward)
        drain = backward + np.maximum(following, ahead * backward)
        steady = np.maximum(steady, forward + backward)
    return np.asarray(warm_up + drain + (micro_batches - stages) * steady)


def errors(spread: float, rng: np.random.Generator) -> Floats:
    """Error of three formulas relative to the makespan, shape (formulas, pipelines)."""
    found = []
    for _ in range(SHAPES):
        stages = int(rng.integers(2, 17))
        micro_batches = int(rng.integers(stages, 65))
        schedule = make_schedule("1f1b", stages, micro_batches)
        size = (PIPELINES, stages)
        times = StageTimes.of(
            forward=rng.uniform(1, 1 + spread, size), backward=2 * rng.uniform(1, 1 + spread, size)
        )
        makespan = simulate(schedule_graph(schedule), times).makespan
        longest = np.max([path.length(times) for path in own_paths(schedule, 0.0).paths()], axis=0)
        both = times.forward + times.backward
        sum_and_bottleneck = both.sum(axis=1) + (micro_batches - 1) * both.max(axis=1)
        formulas = [longest, three_phases(times, micro_batches), sum_and_bottleneck]
        found.append(np.array(formulas) / makespan - 1)
    return np.concatenate(found, axis=1)


def main() -> None:
    """Print per spread the share of pipelines that each formula gives exactly, and its worst."""
    print("          own-paths          three phases       sum + bottleneck")
    print("spread    exact    worst     exact    worst     exact    worst")
    rng = np.random.default_rng(0)
    for spread in SPREADS:
        cells = []
        for error in errors(spread, rng):
            exact = (np.abs(error) <= EXACT).mean()
            worst = error[np.abs(error).argmax()]
            cells.append(f"{exact:8.2%}{worst if abs(worst) > EXACT else 0.0:+9.2%}")
        print(f"{spread:6.0%} " + "  ".join(cells))


if __name__ == "__main__":
    main()
