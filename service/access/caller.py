"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Scope(IntEnum):
    """What a caller may do; each includes those before it."""

    READ = 1
    PLAN = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """As it is written in commands and tokens."""
        return self.name.lower()


@dataclass(frozen=True)
class Caller:
    """A key or a token at work for a tenant.

    Args:
        tenant: Whose plans these are.
        scope: What may be done.
        key_id: Which key or token it is, for logs and limits; None without access control.
        requests_per_minute: Requests that are answered; None is any number.
        plans_per_day: Different plans that may be asked for in 24 hours; None is any number.
    """

    tenant: str
    scope: Scope
    key_id: str | None = None
    requests_per_minute: int | None = None
    plans_per_day: int | None = None

    @property
    def visible(self) -> str | None:
        """The tenant whose plans the caller sees; None is all plans of all tenants."""
        return None if self.key_id is None else self.tenant


ANYBODY = Caller("default", Scope.ADMIN)
"""Whoever asks a service without access control."""
