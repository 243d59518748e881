"""The even split: what frameworks do with a pipeline unless told otherwise.

The layers are divided equally; the blocks before them (embedding) stand on the first stage, those
after them (head) on the last. Where the count does not divide, Megatron-LM lets the embedding and
the loss, or the loss alone, count as a layer; failing that the layers left over go one each to the
stages in the middle, which hold neither.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.schedules import Schedule


def even_split(costs: PipelineCosts, stages: int) -> tuple[tuple[int, int], ...]:
    """The even split of a model's layers over stages, as runs [start, stop)."""
    ends = frozenset(k for k, block in enumerate(costs.blocks) if not block.checkpointable)
    return even_cuts(costs.sequence, stages, ends)


def even_stages(costs: PipelineCosts, schedule: Schedule) -> tuple[tuple[int, int], ...]:
    """The even split over all stages of a schedule, every copy of the model cut alike."""
    return even_split(costs, schedule.depth) * (schedule.stages // schedule.depth)


def even_cuts(
    sequence: tuple[int, ...], stages: int, ends: frozenset[int] = frozenset()
) -> tuple[tuple[int, int], ...]:
    """The even split of a sequence of block kinds over stages, as runs [start, stop).

    ``ends`` are the kinds that are no layers; where none is known (a profile) those are taken for
    ends that stand alone of their kind at either end.
    """
    first, last = body(sequence, ends)
    if last - first < stages:
        first, last = 0, len(sequence)
    sizes = _sizes(last - first, stages)
    edges = [first, *(first + size for size in itertools.accumulate(sizes))]
    edges[0], edges[-1] = 0, len(sequence)
    return tuple(itertools.pairwise(edges))


def body(sequence: tuple[int, ...], ends: frozenset[int]) -> tuple[int, int]:
    """The interval of layers."""
    counts = Counter(sequence)
    outside = [kind in ends if ends else counts[kind] == 1 for kind in sequence]
    first = next((i for i, end in enumerate(outside) if not end), 0)
    last = len(sequence) - next((i for i, end in enumerate(reversed(outside)) if not end), 0)
    return first, last


def _sizes(layers: int, stages: int) -> list[int]:
    """Layers per stage, at least one each."""
    if layers % stages == 0:
        return [layers // stages] * stages
    for first, last in ((1, 1), (0, 1), (1, 0)):
        padded = layers + first + last
        if padded % stages == 0 and padded // stages > 1 and stages > 1:
            each = padded // stages
            return [each - first, *[each] * (stages - 2), each - last]
    each, extra = divmod(layers, stages)
    middle_first = sorted(range(stages), key=lambda s: abs(2 * s - (stages - 1)))
    sizes = [each] * stages
    for stage in middle_first[:extra]:
        sizes[stage] += 1
    return sizes


def level_blocks(blocks: int, stages: int) -> tuple[tuple[int, int], ...]:
    """Every stage its share of the blocks, whatever they are."""
    edges = np.linspace(0, blocks, stages + 1).round().astype(int).tolist()
    return tuple(itertools.pairwise(edges))
