"""The one family of errors that the solver raises at its callers.

Each error has a stable ``code`` (for programs), a ``title`` (what kind of thing went wrong), a
``detail`` (what exactly, for a person), and where it applies the JSON path of the ``field`` that
caused it and a ``hint`` that names the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class StagecutError(Exception):
    """Base of every error that is the caller's business.

    Args:
        detail: What exactly is wrong, in words a person can act on.
        field: JSON path of the offending field of the request, such as ``layout.tensor_parallel``.
        hint: The way out, for example the nearest legal value.
    """

    code: ClassVar[str] = "error"
    title: ClassVar[str] = "The request could not be answered"

    def __init__(self, detail: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        way_out = f" {self.hint}" if self.hint else ""
        return f"{where}{self.detail}{way_out}"

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments survive the trip between worker process and service.
        return (_rebuild, (type(self), self.detail, self.field, self.hint))


def _rebuild(
    kind: type[StagecutError], detail: str, field: str | None, hint: str | None
) -> StagecutError:
    return kind(detail, field=field, hint=hint)


@contextmanager
def part_of_request(path: str) -> Iterator[None]:
    """Errors that arise within name their fields from the whole request on, below ``path``."""
    try:
        yield
    except StagecutError as error:
        error.field = f"{path}.{error.field}" if error.field else None
        raise


class BadRequest(StagecutError):
    """A field is missing, unknown, of the wrong type or out of range."""

    code = "bad-request"
    title = "The request is not well formed"


class UnknownName(BadRequest):
    """A name (model, device, cluster) is in no catalogue."""

    code = "unknown-name"
    title = "No such entry"


class UnsupportedModel(BadRequest):
    """The model's description asks for something the cost model does not know."""

    code = "unsupported-model"
    title = "This kind of model cannot be planned"


class IllegalLayout(BadRequest):
    """A parallel layout breaks a rule of divisibility or of the target framework."""

    code = "illegal-layout"
    title = "This parallel layout is not legal"


class SolverFailed(StagecutError):
    """The optimiser returned an answer that did not survive the independent check, or none."""

    code = "solver-failed"
    title = "The solver failed"
