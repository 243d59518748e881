"""What holds for all tests: properties are tried on the same examples everywhere, at any pace."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")
