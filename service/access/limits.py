"""How often a caller may ask. Each server process counts for itself."""

from __future__ import annotations

import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from service.access.caller import Caller
from service.problems import ProblemError, problem


class Limits:
    """Counts the requests of every key over the minute before."""

    def __init__(self) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def count(self, caller: Caller) -> None:
        """Count a request.

        Raises:
            ProblemError: It is one too many (429, with ``Retry-After``).
        """
        if caller.requests_per_minute is None or caller.key_id is None:
            return
        most = RateLimitItemPerMinute(caller.requests_per_minute)
        if self._limiter.hit(most, caller.key_id):
            return
        resets_at = self._limiter.get_window_stats(most, caller.key_id).reset_time
        pause = max(1, math.ceil(resets_at - time.time()))
        raise too_many(
            "too-many-requests",
            f"This key may ask {caller.requests_per_minute} times a minute.",
            pause,
        )


def too_many(code: str, detail: str, pause_seconds: int) -> ProblemError:
    """A caller has used up what it may."""
    return ProblemError(
        problem(
            429,
            code,
            "Too many requests",
            detail,
            hint=f"Ask again in {pause_seconds} s.",
        ),
        {"Retry-After": str(pause_seconds)},
    )
