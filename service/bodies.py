"""Request bodies: read within limits of kind, length and time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from service.problems import ProblemError, problem


async def read_body(request: Request, max_bytes: int, max_seconds: float) -> bytes:
    """The body's bytes.

    Raises:
        ProblemError: The body is not declared as JSON (415), too long (413) or too slow (408).
    """
    media_type = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if media_type.lower() != "application/json" and not media_type.lower().endswith("+json"):
        raise ProblemError(
            problem(
                415,
                "unsupported-media-type",
                "The body is not declared as JSON",
                f"The content type is {media_type[:100]!r}.",
                hint="Send JSON with the header Content-Type: application/json.",
            )
        )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_long(max_bytes)
    try:
        async with asyncio.timeout(max_seconds):
            return await _collect(request, max_bytes)
    except TimeoutError:
        raise ProblemError(
            problem(
                408,
                "body-too-slow",
                "The body did not arrive in time",
                f"The body was not complete after {max_seconds:g} s.",
                hint="Send the whole body at once.",
            ),
            {"Connection": "close"},
        ) from None


async def _collect(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise _too_long(max_bytes)
    except ClientDisconnect:
        raise ProblemError(
            problem(400, "no-body", "The body is incomplete", "The caller went away.")
        ) from None
    return bytes(body)


def _too_long(max_bytes: int) -> ProblemError:
    return ProblemError(
        problem(
            413,
            "body-too-long",
            "The body is too long",
            f"The body is longer than {max_bytes:,} bytes.",
            hint="Describe repeated blocks once, with a count, in `sequence`.",
        ),
        {"Connection": "close"},
    )
