"""Whether the service may open at an address: nowhere but on loopback without a key."""

from __future__ import annotations

import ipaddress
import time

from service.access import keys as making
from service.problems import ProblemError, problem
from service.settings import Settings
from service.store import Store, keys


def resolved(settings: Settings, host: str) -> Settings:
    """The settings with ``access`` decided for an address to listen on."""
    if settings.access != "auto":
        return settings
    return settings.model_copy(update={"access": "open" if _is_loopback(host) else "required"})


def ensure_a_key(store: Store, settings: Settings) -> None:
    """See that somebody can ask a service that requires it.

    Raises:
        ProblemError: There is no key, and no tokens are accepted.
    """
    if settings.access != "required":
        return
    if settings.bootstrap_key is not None:
        making.ensure(store, settings.bootstrap_key.get_secret_value())
    with store.reading() as session:
        if settings.oidc_keys is not None or keys.any_good(session, time.time()):
            return
    raise ProblemError(
        problem(
            503,
            "no-key",
            "Nobody could ask this service",
            "It is to listen beyond this machine, requires keys, and there are none.",
            hint="Make one with `stagecut keys create NAME`, or give one in"
            " STAGECUT_BOOTSTRAP_KEY. On a network where everybody may ask:"
            " STAGECUT_ACCESS=open.",
        )
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
