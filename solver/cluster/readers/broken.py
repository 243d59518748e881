"""What is said of a file that cannot be read: the line, and the reason."""

from __future__ import annotations

from solver.errors import BadRequest


class BrokenFile(BadRequest):
    """A topology file breaks the rules of its format."""

    code = "broken-file"
    title = "The file cannot be read"


def broken(reason: str, line: int | None = None, hint: str | None = None) -> BrokenFile:
    """The error for a file that is wrong in ``line`` (from 1) for ``reason``."""
    where = f"Line {line}: " if line else ""
    return BrokenFile(where + reason, field="cluster.topology", hint=hint)


def line_of(text: str, *needles: str) -> int | None:
    """The first line on which a quoted or bare needle stands: where a value was written."""
    for needle in needles:
        for number, line in enumerate(text.splitlines(), 1):
            if needle in line:
                return number
    return None
