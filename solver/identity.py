"""What makes two requests the same, and two answers comparable.

A plan's id is the hash of its request, defaults filled and keys sorted, together with the version
of the solver: the same question to the same solver has one answer and one id.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from solver.request import PlanRequest, canonical

ANSWERS = 11
"""Raised whenever the same request may get another answer: costs, bounds or search changed."""


def _data_digest() -> str:
    """A hash of the solver's data files: devices, models, calibrations."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted([*root.rglob("*.json"), *root.rglob("*.csv")]):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


SOLVER_VERSION = f"{ANSWERS}-{_data_digest()}"
"""What an answer depends on beside its request: the code's word for it, and all its data."""


def plan_id(request: PlanRequest) -> str:
    """The content address of a request: 32 hexadecimal digits of a SHA-256.

    The time limit counts: a search cut short may answer otherwise than one that ran to its end.
    """
    return _address({"request": canonical(request), "solver_version": SOLVER_VERSION})


def content_id(kind: str, request: BaseModel) -> str:
    """The content address of a request of another kind, such as a capacity curve's."""
    plain = request.model_dump(mode="json")
    return _address({"kind": kind, "request": plain, "solver_version": SOLVER_VERSION})


def _address(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
