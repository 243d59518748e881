"""How long plans are kept."""

from __future__ import annotations

import time

from service.store import Store, plans

_AT_A_TIME = 500  # so that no one waits long for the database meanwhile
_DAY_SECONDS = 86_400.0


def prune(store: Store, days: float) -> int:
    """Remove the plans that were finished more than ``days`` ago; how many those are."""
    moment, removed = time.time() - days * _DAY_SECONDS, 0
    while True:
        with store.writing() as session:
            some = plans.remove_finished_before(session, moment, _AT_A_TIME)
        removed += some
        if some < _AT_A_TIME:
            return removed
