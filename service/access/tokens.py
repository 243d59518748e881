"""Bearer tokens of an OpenID Connect provider, checked with the provider's published keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt

from service.access.caller import Caller, Scope
from service.settings import Settings

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
_LEEWAY_SECONDS = 30


class Tokens:
    """Reads tokens; the keys come from a file or, cached for minutes, from a URL."""

    def __init__(self, settings: Settings) -> None:
        assert settings.oidc_keys is not None
        self._settings = settings
        self._source = settings.oidc_keys
        self._client: jwt.PyJWKClient | None = None
        if self._source.startswith(("http://", "https://")):
            self._client = jwt.PyJWKClient(self._source, timeout=5)

    def caller_of(self, token: str) -> Caller | None:
        """Whose token it is, if it is good; may ask the provider for its keys."""
        settings = self._settings
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key_of(token),
                algorithms=_ALGORITHMS,
                audience=settings.oidc_audience,
                issuer=settings.oidc_issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, OSError, ValueError):
            return None
        tenant, scope = claims.get(settings.oidc_tenant_claim), _scope(claims)
        if not isinstance(tenant, str) or not tenant or scope is None:
            return None
        return Caller(
            tenant=tenant[:100],
            scope=scope,
            key_id=f"oidc:{claims['sub']}"[:100],
            requests_per_minute=settings.requests_per_minute,
            plans_per_day=settings.plans_per_day,
        )

    def _key_of(self, token: str) -> jwt.PyJWK:
        if self._client is not None:
            return self._client.get_signing_key_from_jwt(token)
        published = jwt.PyJWKSet.from_dict(json.loads(Path(self._source).read_text("utf-8")))
        wanted = jwt.get_unverified_header(token).get("kid")
        for key in published.keys:
            if wanted is None or key.key_id == wanted:
                return key
        raise jwt.InvalidKeyError("no such key")


def _scope(claims: dict[str, Any]) -> Scope | None:
    """The widest of ours in ``scope``: ``stagecut:plan``, or ``plan`` by itself."""
    said = claims.get("scope", claims.get("scp", ""))
    words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
    found = [scope for scope in Scope if scope.word in words or f"stagecut:{scope.word}" in words]
    return max(found, default=None)
