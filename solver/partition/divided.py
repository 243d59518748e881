"""How named software divides layers over stages that nobody told (``workload/software.py``)."""

from __future__ import annotations

import itertools

from solver.costs.pipeline import PipelineCosts
from solver.partition.even import body, even_split
from solver.workload.software import Division


def divided(costs: PipelineCosts, stages: int, division: Division) -> tuple[tuple[int, int], ...]:
    """The split of a model over stages, as runs [start, stop) of its sequence of blocks.

    The even one where there are fewer layers than stages, or where a rule leaves a stage empty.
    """
    ends = frozenset(k for k, block in enumerate(costs.blocks) if not block.checkpointable)
    first, last = body(costs.sequence, ends)
    if division is Division.EVEN or last - first < stages:
        return even_split(costs, stages)
    if division is Division.LATE:
        inner = _late(last - first, stages)
    else:
        weights = [costs.blocks[kind].states.weights for kind in costs.sequence]
        inner = _crossing(weights[first:last], sum(weights[last:]), stages)
    edges = [0, *(first + edge for edge in inner), len(costs.sequence)]
    if any(start >= stop for start, stop in itertools.pairwise(edges)):
        return even_split(costs, stages)
    return tuple(itertools.pairwise(edges))


def _late(layers: int, stages: int) -> list[int]:
    """Inner edges where layers left over go one each to the last stages."""
    each, extra = divmod(layers, stages)
    return [each * stage + max(0, stage - (stages - extra)) for stage in range(1, stages)]


def _crossing(layers: list[float], head: float, stages: int) -> list[int]:
    """Inner edges where a stage ends with the layer that takes the sum of costs past its share.

    A layer costs what its products do, which is in proportion to its weights.
    """
    share = (sum(layers) + head) / stages
    edges: list[int] = []
    for count, done in enumerate(itertools.accumulate(layers), start=1):
        if len(edges) < stages - 1 and done > share * (len(edges) + 1):
            edges.append(count)
    return edges + [len(layers)] * (stages - 1 - len(edges))
