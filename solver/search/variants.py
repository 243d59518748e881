"""What the other variants of a layout can gain over the first.

The first variant shards states over all replicas. Another takes as long for every pass and holds
more; it can be faster only by the time that the first one's weights and gradients are on their way
without being hidden. For a stage that is at most the sum over its blocks, and so at most the sum
over all blocks.
"""

from __future__ import annotations

from solver.costs.pipeline import PipelineCosts


def gain(costs: PipelineCosts) -> float:
    """Seconds per iteration that no other variant saves more than."""
    total = 0.0
    for kind in costs.sequence:
        block = costs.blocks[kind]
        hidden = costs.gather_overlap * block.forward_seconds
        total += max(block.gather_seconds - hidden, 0.0)
        hidden = costs.gradient_overlap * block.backward_seconds
        total += max(block.gradient_seconds - hidden, 0.0)
    return total
