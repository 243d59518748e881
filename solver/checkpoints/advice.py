"""The interval between checkpoints that loses least time, and the goodput that it leaves.

With failures that come independently at a mean time M, a pause C per checkpoint and R to come back,
work of tau seconds between checkpoints takes on average (Daly, Future Generation Computer Systems
22(3), 2006, equation 13)

    M exp(R / M) (exp((tau + C) / M) - 1)

seconds. What it takes per second of work is least where (1 - tau / M) exp((tau + C) / M) = 1, which
is solved by bisection and then made whole iterations. Beside it stand the usual approximations:
Young's sqrt(2 C M) (Communications of the ACM 17(9), 1974) and Daly's (ibid., equation 37)
sqrt(2 C M) (1 + sqrt(C / 2 M) / 3 + (C / 2 M) / 9) - C, or M where C >= 2 M.
"""

from __future__ import annotations

import math

from solver.checkpoints.documents import CheckpointAdvice, CheckpointRequest
from solver.errors import BadRequest
from solver.transitions.state import OPTIMIZER_BYTES, WEIGHT_BYTES
from solver.transitions.transition import layers_of


def advice(request: CheckpointRequest) -> CheckpointAdvice:
    """How often the plan should write checkpoints.

    Raises:
        BadRequest: The plan has no iteration, or its model is a profile.
    """
    plan, terms = request.plan, request.terms
    if plan.layout is None or not plan.iteration_seconds:
        raise BadRequest(
            "There is nothing to write checkpoints of.",
            field="plan",
            hint="Give a plan that succeeded.",
        )
    layout = plan.layout
    devices = (
        layout.tensor_parallel
        * layout.context_parallel
        * layout.pipeline_parallel
        * layout.data_parallel
    )
    parameters = float(layers_of(request.job).parameters.sum())
    state = parameters * (WEIGHT_BYTES + OPTIMIZER_BYTES)
    moving = state / terms.storage_bytes_per_second
    pause = moving if terms.pause_seconds is None else terms.pause_seconds
    mean = 3600.0 / (terms.failures_per_device_hour * devices)
    restart = terms.restart_seconds + moving
    seconds = plan.iteration_seconds
    iterations = whole_iterations(seconds, pause, mean, restart)
    interval = iterations * seconds
    share = goodput(interval, pause, mean, restart)
    samples = request.job.training.global_batch_size
    notes = []
    if pause < moving and interval < moving:
        notes.append("A checkpoint takes longer to write than this interval; writes would pile up.")
    return CheckpointAdvice(
        plan_id=plan.id,
        interval_seconds=interval,
        interval_iterations=iterations,
        goodput=share,
        samples_per_second=None if samples is None else share * samples / seconds,
        young_seconds=math.sqrt(2 * pause * mean),
        daly_seconds=daly(pause, mean),
        failure_seconds=mean,
        pause_seconds=pause,
        restart_seconds=restart,
        state_bytes=state,
        checkpoint_share=share * pause / interval,
        failure_share=1 - share * (1 + pause / interval),
        notes=notes,
    )


def goodput(interval: float, pause: float, mean: float, restart: float) -> float:
    """Seconds of work per second, between 0 and 1; all arguments in seconds."""
    exponent = (interval + pause) / mean
    if exponent > 700:
        return 0.0
    return interval / (mean * math.exp(min(restart / mean, 700.0)) * math.expm1(exponent))


def best_interval(pause: float, mean: float) -> float:
    """The interval of least loss, in seconds: the root of (1 - x) exp(x + pause / mean) = 1."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if math.log1p(-middle) + middle + pause / mean > 0:
            low = middle
        else:
            high = middle
    return low * mean


def daly(pause: float, mean: float) -> float:
    """Daly's higher-order approximation of it."""
    if pause >= 2 * mean:
        return mean
    half = pause / (2 * mean)
    return math.sqrt(2 * pause * mean) * (1 + math.sqrt(half) / 3 + half / 9) - pause


def whole_iterations(iteration: float, pause: float, mean: float, restart: float) -> int:
    """The number of iterations between checkpoints with the largest goodput, 1 at least."""
    about = best_interval(pause, mean) / iteration
    candidates = {max(1, math.floor(about)), max(1, math.ceil(about))}
    return max(
        sorted(candidates), key=lambda count: goodput(count * iteration, pause, mean, restart)
    )
