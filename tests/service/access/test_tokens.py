"""Tokens of a provider are good if it signed them, for us, and for a tenant."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from service.access.caller import Caller, Scope
from service.access.tokens import Tokens
from service.settings import Settings

OURS, FOREIGN = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
ISSUER = "https://provider.example"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    published = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(OURS.public_key()))
    published |= {"kid": "1", "alg": "ES256", "use": "sig"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [published]}))
    return Tokens(Settings(oidc_keys=str(tmp_path / "keys.json"), oidc_issuer=ISSUER))


def token(key: ec.EllipticCurvePrivateKey = OURS, kid: str = "1", **changes: Any) -> str:
    claims = {
        "iss": ISSUER,
        "aud": "stagecut",
        "sub": "ada",
        "exp": time.time() + 60,
        "tenant": "one",
        "scope": "openid stagecut:plan",
    } | changes
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(kept, key, algorithm="ES256", headers={"kid": kid})


def test_a_good_token_names_tenant_and_scope(tokens: Tokens) -> None:
    assert tokens.caller_of(token()) == Caller("one", Scope.PLAN, "oidc:ada")
    wide = tokens.caller_of(token(scope=["read", "admin"]))
    assert wide is not None
    assert wide.scope is Scope.ADMIN


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.example"},
        {"aud": "another"},
        {"exp": time.time() - 86_400},
        {"exp": None},
        {"sub": None},
        {"tenant": None},
        {"tenant": 7},
        {"scope": "openid"},
        {"scope": None},
        {"nbf": time.time() + 86_400},
    ],
)
def test_a_token_that_lacks_anything_is_good_for_nothing(
    tokens: Tokens, changes: dict[str, Any]
) -> None:
    assert tokens.caller_of(token(**changes)) is None


def test_a_token_of_another_signer_is_good_for_nothing(tokens: Tokens) -> None:
    assert tokens.caller_of(token(FOREIGN)) is None
    assert tokens.caller_of(token(kid="2")) is None
    unsigned = jwt.encode({"sub": "ada"}, None, algorithm="none")
    for nonsense in (unsigned, "a.b.c", "..", "\xff.\xff.\xff"):
        assert tokens.caller_of(nonsense) is None


def test_an_issuer_must_be_named() -> None:
    with pytest.raises(ValueError, match="STAGECUT_OIDC_ISSUER"):
        Settings(oidc_keys="keys.json")
