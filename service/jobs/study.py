"""Work of other kinds than plans, taken in and worked out by the same jobs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from pydantic import BaseModel

from service.jobs.intake import Asked
from solver.identity import content_id


@dataclass(frozen=True)
class Study(Asked):
    """A well-formed request of another kind; ``request`` is the job that it is about."""

    of_kind: str
    whole: BaseModel

    @property
    def kind(self) -> str:
        """What kind of work it is."""
        return self.of_kind

    @cached_property
    def plan_id(self) -> str:
        """The id of the answer."""
        return content_id(self.kind, self.whole)

    @cached_property
    def json(self) -> str:
        """The request with every default filled, as text."""
        plain = self.whole.model_dump(mode="json")
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))
