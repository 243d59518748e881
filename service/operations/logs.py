"""Logs on standard error, as text or one JSON object a line, each with its request's id."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is served, wherever that leads."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName", "request_id"}


def configure(level: str, form: Literal["text", "json"]) -> None:
    """Send the logs of the whole process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("service").setLevel(level.upper())
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


class _Json(logging.Formatter):
    """A JSON object: time, level, logger, message, request, ``extra``, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (identity := request_id.get()) is not None:
            line["request_id"] = identity
        line |= _extra(record)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _Text(logging.Formatter):
    """The same for people, on a line; tracebacks follow."""

    def format(self, record: logging.LogRecord) -> str:
        said = f"{_moment(record)} {record.levelname:7} {record.getMessage()}"
        said += "".join(f" {name}={value}" for name, value in _extra(record).items())
        if (identity := request_id.get()) is not None:
            said += f" request_id={identity}"
        return said + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
