"""What every type that a caller fills in has in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from solver.errors import BadRequest

LINE = r"^[^\x00-\x1f\x7f]*$"
"""Names stand in tables, XML and the store, none of which has a way to write control characters."""

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=LINE)]

HOST = r"^[^\s,]+$"
"""Node lists and rank files have no way to write spaces or commas."""

NodeName = Annotated[str, Field(min_length=1, max_length=253, pattern=HOST)]
"""A node as its scheduler calls it."""

LABEL = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
"""The key of a Kubernetes label: a name, before it a domain and a slash."""

Label = Annotated[str, Field(min_length=1, max_length=317, pattern=LABEL)]


def named_once(names: Iterable[tuple[str, str]]) -> None:
    """See that no node is named twice.

    Args:
        names: Where each stands, as a JSON path, and what it is.

    Raises:
        BadRequest: One is; at the second place.
    """
    places: dict[str, str] = {}
    for place, name in names:
        if name in places:
            raise BadRequest(
                f"The node {name!r} is named twice, first in {places[name]}.",
                field=place,
                hint="Name each node once.",
            )
        places[name] = place


class Strict(BaseModel):
    """Base of every request type: no unknown field, immutable once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
