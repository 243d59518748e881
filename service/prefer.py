"""How long a caller would wait: `wait` of the header Prefer (RFC 7240)."""

from __future__ import annotations

import re

from fastapi import Request

from service.context import settings_of

PARAMETER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "examples": ["wait=20"]},
    "description": "`wait=20`: answer when it is finished, if that is within 20 s.",
}
"""How the API page describes it."""

_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})", re.IGNORECASE)


def preferred_wait(request: Request) -> float:
    """Seconds, at most what the settings allow; whatever cannot be read is ignored."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return min(float(found.group(1)), settings_of(request).max_wait_seconds) if found else 0.0


def applied(wait_seconds: float) -> dict[str, str]:
    """The header that says what was honoured."""
    return {"Preference-Applied": f"wait={wait_seconds:g}"} if wait_seconds > 0 else {}
