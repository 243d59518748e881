"""Which of a layer's tensors are its attention's and which its feed-forward's, by their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from solver.costs.pipeline import Block


@dataclass(frozen=True)
class Section:
    """A part of a layer that frameworks have a module for; norms and residuals are outside."""

    beginnings: tuple[str, ...]

    def of(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the tensors that this section makes."""
        return frozenset(
            name
            for name in names
            if name.startswith(self.beginnings) and not name.startswith(_OUTSIDE)
        )


_OUTSIDE = (
    "attention_norm",
    "attention_post_norm",
    "attention_residual",
    "feed_forward_norm",
    "feed_forward_post_norm",
    "feed_forward_residual",
)

ATTENTION = Section(("query", "key", "value", "rotary", "attention", "core_attention", "context_"))
FEED_FORWARD = Section(("feed_forward", "router", "expert", "shared_expert"))


def section(block: Block, part: Section) -> frozenset[str]:
    """The tensors of a block that a section makes."""
    return part.of(op.name for op in block.ops)
