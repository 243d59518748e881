"""The store: tables, migrations, and per resource the only place with its queries."""

from service.store.database import Store

__all__ = ["Store"]
