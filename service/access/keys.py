"""API keys: made, looked up, changed and revoked. Only their digests are stored."""

from __future__ import annotations

import hashlib
import secrets
import time

from service.access.caller import Caller, Scope
from service.problems import ProblemError, problem
from service.settings import Settings
from service.store import Store, keys
from service.store.tables import ApiKeyRow

_DAY_SECONDS = 86_400.0
_PREFIX = "stagecut_"


def create(
    store: Store,
    name: str,
    tenant: str,
    scope: Scope,
    *,
    days: float | None = None,
    requests_per_minute: int | None = None,
    plans_per_day: int | None = None,
    secret: str | None = None,
) -> tuple[str, str]:
    """Make a key; its id, and the key itself, which cannot be read again."""
    now, token = time.time(), secret or _new_secret()
    row = ApiKeyRow(
        id=secrets.token_hex(4),
        digest=digest(token),
        name=name,
        tenant=tenant,
        scope=scope.word,
        created_at=now,
        expires_at=None if days is None else now + days * _DAY_SECONDS,
        requests_per_minute=requests_per_minute,
        plans_per_day=plans_per_day,
    )
    with store.writing() as session:
        keys.add(session, row)
    return row.id, token


def rotate(store: Store, key_id: str, grace_hours: float) -> str:
    """Give the key a new secret; the old one stays good for so long.

    Raises:
        ProblemError: There is no such key, or it is revoked.
    """
    token = _new_secret()
    with store.writing() as session:
        if not keys.rotate(session, key_id, digest(token), time.time() + grace_hours * 3600):
            raise _unknown(key_id)
    return token


def revoke(store: Store, key_id: str) -> None:
    """Make the key good for nothing, within seconds.

    Raises:
        ProblemError: There is no such key, or it is revoked already.
    """
    with store.writing() as session:
        if not keys.revoke(session, key_id, time.time()):
            raise _unknown(key_id)


def ensure(store: Store, secret: str) -> None:
    """Make ``secret`` an admin's key of the tenant `default`, unless it is or was a key."""
    with store.reading() as session:
        known = keys.exists(session, digest(secret))
    if not known:
        create(store, "bootstrap", "default", Scope.ADMIN, secret=secret)


def caller_of(store: Store, token: str, settings: Settings) -> Caller | None:
    """Whose key ``token`` is, if it is good; without limits of its own it has the settings'."""
    with store.reading() as session:
        row = keys.find(session, digest(token), time.time())
    if row is None:
        return None
    return Caller(
        tenant=row.tenant,
        scope=Scope[row.scope.upper()],
        key_id=row.id,
        requests_per_minute=row.requests_per_minute or settings.requests_per_minute,
        plans_per_day=row.plans_per_day or settings.plans_per_day,
    )


def digest(token: str) -> str:
    """What is stored of a key. Keys are random and long, so a plain hash cannot be reversed."""
    return hashlib.sha256(token.encode()).hexdigest()


def _new_secret() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def _unknown(key_id: str) -> ProblemError:
    return ProblemError(
        problem(
            404,
            "unknown-key",
            "No such key",
            f"There is no key {key_id[:40]!r} that is in use.",
            hint="`stagecut keys list` shows the keys.",
        )
    )
