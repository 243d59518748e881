"""What is asked of solver processes about the parts of a search that was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from service.jobs.pool import Outcome, SolverPool


def part_request(request: str, part: str, time_limit_seconds: float) -> str:
    """What a part's job is asked (JSON text)."""
    return f'{{"part":{part},"request":{request},"time_limit_seconds":{time_limit_seconds}}}'


def gather_request(request: str, state: str, answers: Sequence[str]) -> str:
    """What makes the plan of its parts' answers (JSON text)."""
    return f'{{"answers":[{",".join(answers)}],"request":{request},"state":{state}}}'


async def side_by_side(pool: SolverPool, request: str, begun: Outcome, limit: float) -> Outcome:
    """The plan of a search that was begun, its parts worked out by the processes of one pool.

    Args:
        pool: The processes.
        request: The plan's request (JSON text).
        begun: What the call ``plan`` gave.
        limit: The request's time limit, seconds.

    Raises:
        SolverDied, TimeoutError: As of a call.
    """
    calls = [pool.call("part", part_request(request, part, limit), limit) for part in begun.parts]
    outcomes = await asyncio.gather(*calls)
    answers = []
    for outcome in outcomes:
        if outcome.answer is None:
            return outcome
        answers.append(outcome.answer)
    return await pool.call("gather", gather_request(request, begun.state, answers), limit)
