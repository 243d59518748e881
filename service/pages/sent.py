"""The fields of a form that was sent."""

from __future__ import annotations

from urllib.parse import parse_qsl

from fastapi import Request

from service.problems import ProblemError, problem

_MOST_FIELDS = 200


async def fields_sent(request: Request, max_bytes: int) -> dict[str, str]:
    """The fields by name.

    Raises:
        ProblemError: The form is longer than ``max_bytes``.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise ProblemError(problem(413, "body-too-long", "The form is too long", "Paste less."))
    text = body.decode("utf-8", "replace")
    return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
