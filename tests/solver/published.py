"""Requests of published training runs, each with its source: layouts that frameworks executed."""

from __future__ import annotations

import json
from pathlib import Path

from solver.request import PlanRequest


def published_requests() -> list[PlanRequest]:
    """All of ``published_requests.jsonl``."""
    lines = Path(__file__).with_name("published_requests.jsonl").read_text("utf-8").splitlines()
    return [PlanRequest.model_validate(json.loads(line)["request"]) for line in lines]
