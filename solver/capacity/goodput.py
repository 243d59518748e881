"""Fits the throughput model of Pollux (Qiao et al., OSDI 2021, section 3.2) to measured points.

With a fixed global batch B on r devices, b = B / r:

    T_compute = alpha_c + beta_c b
    T_network = alpha + beta max(r - 2, 0)      (one pair of parameters on one node, one beyond it)
    T = (T_compute^gamma + T_network^gamma)^(1 / gamma), 1 <= gamma <= 10

Least squares of the relative errors by Gauss-Newton steps with damping (Levenberg 1944, Marquardt
1963) over the logarithms of the parameters, from several starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_GAMMA = (1.0, 10.0)


@dataclass(frozen=True)
class Fitted:
    """Seven parameters in the order of Pollux, and the root mean square of relative errors."""

    parameters: tuple[float, ...]
    relative_error: float


def step_seconds(parameters: Floats, nodes: Floats, devices: Floats, batch: float) -> Floats:
    """The model; ``nodes`` and ``devices`` of shape (points,), result likewise, in seconds."""
    alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma = parameters
    compute = alpha_c + beta_c * batch / devices
    beyond = np.maximum(devices - 2, 0)
    network = np.where(nodes > 1, alpha_n + beta_n * beyond, alpha_r + beta_r * beyond)
    largest = np.maximum(compute, network)
    ratio = (compute / largest) ** gamma + (network / largest) ** gamma
    return np.asarray(largest * ratio ** (1 / gamma))


def fit(nodes: Floats, devices: Floats, seconds: Floats, batch: float) -> Fitted:
    """Parameters with the least relative error found; arrays of shape (points,)."""
    best: Fitted | None = None
    for share in (0.9, 0.5):
        for gamma in (1.5, 3.0):
            start = _start(devices, seconds, batch, share, gamma)
            found = _descend(start, nodes, devices, seconds, batch)
            if best is None or found.relative_error < best.relative_error:
                best = found
    assert best is not None
    return best


def _start(devices: Floats, seconds: Floats, batch: float, share: float, gamma: float) -> Floats:
    """Logarithms to begin with: ``share`` of the time grows with the batch per device."""
    per_sequence = share * float(np.median(seconds * devices / batch))
    rest = (1 - share) * float(seconds.min())
    other = [rest, per_sequence, rest, rest / float(devices.max()), rest, rest / 8]
    position = (gamma - _GAMMA[0]) / (_GAMMA[1] - gamma)
    found: Floats = np.log(np.array([*np.maximum(other, 1e-12), position]))
    return found


def _plain(logarithms: Floats) -> Floats:
    """Parameters of their logarithms; gamma between its limits."""
    values = np.exp(np.clip(logarithms, -40.0, 40.0))
    share = values[6] / (1 + values[6])
    values[6] = _GAMMA[0] + (_GAMMA[1] - _GAMMA[0]) * share
    return np.asarray(values, dtype=np.float64)


def _descend(
    start: Floats, nodes: Floats, devices: Floats, seconds: Floats, batch: float
) -> Fitted:
    def errors(logarithms: Floats) -> Floats:
        return step_seconds(_plain(logarithms), nodes, devices, batch) / seconds - 1.0

    here, residual, damping = start, errors(start), 1e-2
    for _ in range(200):
        slopes = np.stack(
            [(errors(here + 1e-5 * unit) - residual) / 1e-5 for unit in np.eye(len(here))], axis=1
        )
        square = slopes.T @ slopes
        step = np.linalg.solve(
            square + damping * (np.diag(np.diag(square)) + 1e-12 * np.eye(len(here))),
            -slopes.T @ residual,
        )
        candidate = here + np.clip(step, -2.0, 2.0)
        after = errors(candidate)
        gained = float(residual @ residual - after @ after)
        if gained > 0:
            here, residual, damping = candidate, after, damping / 3
            if gained < 1e-14:
                break
        else:
            damping *= 4
            if damping > 1e12:
                break
    rms = float(np.sqrt(np.mean(residual**2)))
    return Fitted(tuple(float(value) for value in _plain(here)), rms)
