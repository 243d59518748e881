"""From residuals to the band in which a measurement is to be expected."""

from __future__ import annotations

import math
from collections.abc import Iterable

from solver.calibrations import Band

SHARE = 0.9


def band(ratios: Iterable[float], share: float = SHARE) -> Band:
    """The band that holds a further ratio of measured to predicted with this probability.

    The ratios are of runs that the fit did not see. Their own quantiles are the band, at the ranks
    of conformal prediction (Vovk et al. 2005: of n + 1 exchangeable values the last is equally
    likely to have any rank). Too few for such a rank give the widest of them, stretched by
    1 + 2 / n on either side of 1.
    """
    logs = sorted(math.log(ratio) for ratio in ratios)
    count = len(logs)
    rank = math.floor((1.0 - share) / 2 * (count + 1))
    if rank >= 1:
        low, high = logs[rank - 1], logs[count - rank]
    else:
        high = max(abs(value) for value in logs) * (1.0 + 2.0 / count)
        low = -high
    return Band(low=round(math.exp(low), 4), high=round(math.exp(high), 4), share=share, runs=count)
