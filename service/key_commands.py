"""`stagecut keys`: API keys in the database (STAGECUT_DATABASE_URL)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from service.store import Store

app = typer.Typer(help="Make, list, change and revoke API keys.", no_args_is_help=True)


class ScopeWord(StrEnum):
    """What a key may do."""

    READ = "read"
    PLAN = "plan"
    ADMIN = "admin"


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is called in lists.")],
    tenant: Annotated[str, typer.Option(help="Whose plans it asks for and sees.")] = "default",
    scope: Annotated[ScopeWord, typer.Option(help="Each includes those before it.")] = (
        ScopeWord.PLAN
    ),
    days: Annotated[float | None, typer.Option(min=0, help="Good for so long.")] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    plans_per_day: Annotated[int | None, typer.Option(min=1)] = None,
) -> None:
    """Make a key and print it; it cannot be shown again."""
    from service.access import keys
    from service.access.caller import Scope

    with _store() as store:
        key_id, token = keys.create(
            store,
            name[:100],
            tenant[:100],
            Scope[scope.name],
            days=days,
            requests_per_minute=requests_per_minute,
            plans_per_day=plans_per_day,
        )
    sys.stderr.write(f"Key {key_id} of {tenant}, to be kept: it is not shown again.\n")
    sys.stdout.write(token + "\n")


@app.command("list")
def list_keys() -> None:
    """List all keys, without the keys themselves."""
    from rich.console import Console

    from service.console.keys import keys_table
    from service.store import keys

    with _store() as store, store.reading() as session:
        Console(highlight=False).print(keys_table(keys.every(session)))


@app.command()
def rotate(
    key_id: Annotated[str, typer.Argument(metavar="ID")],
    grace_hours: Annotated[
        float, typer.Option(min=0, help="The old one stays good for so long.")
    ] = 0.0,
) -> None:
    """Print a new key in place of an old one."""
    from service.access import keys

    with _store() as store:
        sys.stdout.write(keys.rotate(store, key_id, grace_hours) + "\n")


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Make a key good for nothing."""
    from service.access import keys

    with _store() as store:
        keys.revoke(store, key_id)


@contextmanager
def _store() -> Iterator[Store]:
    from service.migrate import migrate
    from service.problems import ProblemError
    from service.settings import Settings
    from service.store import Store

    store = Store(Settings().database_url)
    try:
        migrate(store)
        yield store
    except ProblemError as error:
        sys.stderr.write(f"stagecut: {error}\n")
        raise typer.Exit(2) from None
    finally:
        store.close()
