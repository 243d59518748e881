"""Bounds of families before any costs of their own: the blocks at their best at any size.

Families that differ in the micro-batch only are bounded from one set of costs: those of a micro-
batch so large that all that is paid once per kernel, collective or weight is spread thin, under
efficiencies without latencies. Whatever remains grows with the micro-batch at least, so its part of
these costs is what a smaller one takes at least, in seconds and in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Family, Layout
from solver.layouts.family import Listed
from solver.search.totals import Totals

LARGE = 4096
"""Sequences of the micro-batch that stands for all."""

ROUNDED = 0.99
"""Of what each part takes at least: experts take whole tokens, by rounding, and a product of more
rows than a tile has (64 or more) loses half a row of them at most.
"""


class RoughTotals:
    """What families come to at least, reckoned once for those that differ in micro-batch only.

    Args:
        costs_of: What a layout costs without latencies.
    """

    def __init__(self, costs_of: Callable[[Layout], PipelineCosts]) -> None:
        self._costs_of = costs_of
        self._known: dict[tuple[Layout, tuple[int, ...]], tuple[int, Totals]] = {}

    def of(self, family: Family) -> Totals | None:
        """Totals that none of the family's members is below; None where it stands for itself."""
        if isinstance(family, Listed):
            return None
        one = replace(family.exemplar, micro_batch_size=LARGE)
        alike = one if one.zero_stage >= 2 else replace(one, data_parallel=0)
        key = (alike, family.zero_stages)
        replicas, totals = self._known.get(key, (0, None))
        if totals is None or replicas < one.data_parallel:  # more replicas hold less
            totals = Totals.of(self._costs_of(one))
            self._known[key] = (one.data_parallel, totals)
        return totals.of_part(ROUNDED * family.exemplar.micro_batch_size / LARGE)
