"""What is asked of solver processes about the parts of a search that was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from service.jobs.pool import Outcome, SolverPool


def part_request(request: str, part: str, time_limit_seconds: float) -> str:
    """What a part is asked (JSON text), whenever that is.

    ``time_limit_seconds``: of the whole search.
    """
    return f'{{"part":{part},"request":{request},"time_limit_seconds":{time_limit_seconds}}}'


def gather_request(request: str, state: str, answers: Sequence[str]) -> str:
    """What makes the plan of its parts' answers (JSON text)."""
    return f'{{"answers":[{",".join(answers)}],"request":{request},"state":{state}}}'


def due(request: str, deadline_at: float) -> str:
    """What is asked, with the time (seconds since 1970) at which the search should be done."""
    return f'{request[:-1]},"deadline_at":{deadline_at}}}'


async def side_by_side(
    pool: SolverPool, request: str, begun: Outcome, limit: float, grace: float
) -> Outcome:
    """The plan of a search that was begun, its parts worked out by the processes of one pool.

    Args:
        pool: The processes.
        request: The plan's request (JSON text).
        begun: What the call ``plan`` gave.
        limit: The request's time limit, seconds, from when it was begun on.
        grace: How much longer a process may take.

    Raises:
        SolverDied, TimeoutError: As of a call.
    """
    deadline_at = begun.began_at + limit
    asked = [due(part_request(request, part, limit), deadline_at) for part in begun.parts]
    outcomes = await asyncio.gather(*(pool.call("part", each, limit + grace) for each in asked))
    answers = []
    for outcome in outcomes:
        if outcome.answer is None:
            return outcome
        answers.append(outcome.answer)
    gathered = due(gather_request(request, begun.state, answers), deadline_at)
    return await pool.call("gather", gathered, limit + grace)
