"""What makes two requests the same, and two answers comparable.

A plan's id is the hash of its request, defaults filled and keys sorted, together with the version
of the solver: the same question to the same solver has one answer and one id.
"""

from __future__ import annotations

import hashlib
import json

from solver.request import PlanRequest, canonical

SOLVER_VERSION = "1"
"""Raised whenever the same request may get another answer: costs, bounds or search changed."""


def plan_id(request: PlanRequest) -> str:
    """The content address of a request: 32 hexadecimal digits of a SHA-256.

    The time limit counts: a search cut short may answer otherwise than one that ran to its end.
    """
    document = {"request": canonical(request), "solver_version": SOLVER_VERSION}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
