"""Many variants of a layout bounded at once: by an envelope that none of them is below.

Variants differ in how states are sharded over replicas. The envelope of some of them has, block by
block, the memory of the one that needs least and the shortest gather, reduction and update of any.
Every plan of a variant is one under it and takes no longer there, so that its bounds hold for all.
Where one is not enough to leave them out, the variants are halved, down to one: neighbours shard
over groups of similar size, so that envelopes of few are tight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.search.variants import no_better


@dataclass(frozen=True)
class Variant:
    """One variant of a member: its number there, and what it costs.

    ``followers``: variants, numbered, under which no plan is better than under this one.
    """

    number: int
    layout: Layout
    costs: PipelineCosts
    followers: tuple[tuple[int, Layout], ...] = ()


def envelope(variants: Sequence[Variant]) -> PipelineCosts:
    """Costs that are no more than those of any variant, where the first needs least memory."""
    first = variants[0].costs
    blocks = tuple(
        replace(
            of_kind[0],
            gather_seconds=min(block.gather_seconds for block in of_kind),
            gradient_seconds=min(block.gradient_seconds for block in of_kind),
            optimizer_seconds=min(block.optimizer_seconds for block in of_kind),
        )
        for of_kind in zip(*(one.costs.blocks for one in variants), strict=True)
    )
    return replace(first, blocks=blocks)


def enveloped(variants: Sequence[Variant]) -> bool:
    """Whether the envelope of these is one of every single variant."""
    together = envelope(variants)
    return all(no_better(one.costs, together) for one in variants)


def leaders(variants: Sequence[Variant]) -> list[Variant]:
    """The variants that are not led by another, which takes the others as its followers."""
    found: list[Variant] = []
    for one in variants:
        at = next((n for n, known in enumerate(found) if no_better(one.costs, known.costs)), None)
        if at is None:
            found.append(one)
        else:
            mine = ((one.number, one.layout), *one.followers)
            found[at] = replace(found[at], followers=found[at].followers + mine)
    return found


def halves(variants: Sequence[Variant]) -> tuple[Sequence[Variant], Sequence[Variant]]:
    """Two parts of at least two variants, in their order."""
    middle = len(variants) // 2
    return variants[:middle], variants[middle:]
