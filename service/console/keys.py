"""Keys as a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table

from service.store.tables import ApiKeyRow


def keys_table(rows: Sequence[ApiKeyRow]) -> Table:
    """A line a key; the keys themselves are not known."""
    table = Table(box=None, pad_edge=False)
    for column in ("id", "name", "tenant", "scope", "made", "state"):
        table.add_column(column)
    for row in rows:
        made = _day(row.created_at)
        table.add_row(row.id, row.name, row.tenant, row.scope, made, _state(row, time.time()))
    return table


def _state(row: ApiKeyRow, now: float) -> str:
    if row.revoked_at is not None:
        return f"revoked {_day(row.revoked_at)}"
    if row.expires_at is None:
        return "good"
    word = "good until" if row.expires_at > now else "expired"
    return f"{word} {_day(row.expires_at)}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
