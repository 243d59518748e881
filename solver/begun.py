"""A search that was begun: what is left of it, in parts that can be worked out apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel


@dataclass(frozen=True)
class Begun:
    """``parts`` and ``state``, what is known already, are for the planner's own eyes."""

    parts: Sequence[BaseModel]
    state: BaseModel
