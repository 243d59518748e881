"""What host memory gains: the requests of ``examples/offload`` planned with and without it.

``python -m benchmarks.offload`` prints the table of ``docs/offload.md``.
"""

from __future__ import annotations

import time
from pathlib import Path

from solver.plan import Plan, Status
from solver.planner import plan
from solver.request import Offload, PlanRequest

EXAMPLES = Path(__file__).parents[1] / "examples" / "offload"


def main() -> None:
    """Print a row per request."""
    print("| request | on the devices | with host memory | faster | at the host | search |")
    print("|---|---:|---:|---:|---:|---:|")
    for path in sorted(EXAMPLES.glob("*.json")):
        request = PlanRequest.model_validate_json(path.read_bytes())
        recompute = request.recompute.model_copy(update={"offload": Offload.OFF})
        off, off_seconds = _timed(request.model_copy(update={"recompute": recompute}))
        on, on_seconds = _timed(request)
        print(
            f"| {path.stem} | {_row(off, on)} | {off_seconds:.1f}, {on_seconds:.1f} s |", flush=True
        )


def _timed(request: PlanRequest) -> tuple[Plan, float]:
    started = time.process_time()
    return plan(request), time.process_time() - started


def _row(off: Plan, on: Plan) -> str:
    here = f"{off.iteration_seconds:.3f} s" if off.status is Status.SUCCEEDED else "does not fit"
    there = f"{on.iteration_seconds:.3f} s" if on.status is Status.SUCCEEDED else "does not fit"
    faster = ""
    if off.iteration_seconds and on.iteration_seconds:
        faster = f"{off.iteration_seconds / on.iteration_seconds - 1:+.1%}"
    at_host = f"{on.offload.host_peak_bytes / 1e9:.1f} GB" if on.offload else "nothing"
    return f"{here} | {there} | {faster} | {at_host}"


if __name__ == "__main__":
    main()
