"""What every type that a caller fills in has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Strict(BaseModel):
    """Base of every request type: no unknown field, immutable once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
