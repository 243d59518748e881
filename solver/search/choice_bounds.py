"""What each value of each field costs at least: the least bound of all layouts that have it.

Every layout that was considered has its part in it: those looked at one by one with their own
bounds, members that were not with their family's, for all their variants at once.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from solver.layouts import Layout
from solver.layouts.choices import ANY, FIELDS, Value, pools_value, shared_values, values_of
from solver.layouts.family import Family, Index
from solver.layouts.pooled import PooledFamily

Floats = npt.NDArray[np.float64]

Least = dict[str, dict[Value | None, float]]
"""Of every field and value the least bound; under ``ANY`` of layouts that have them all."""


class ChoiceBounds:
    """Gathers the least bounds; order does not matter."""

    def __init__(self) -> None:
        self._least: defaultdict[tuple[str, Value | None], float] = defaultdict(lambda: math.inf)

    def add(self, layout: Layout, bound: float) -> None:
        """A layout, and what is proved of it."""
        for name, value in values_of(layout):
            self._lower(name, value, bound)

    def add_members(self, family: Family, places: Index, bounds: Floats) -> None:
        """Some members of a family, and what is proved of each in all its variants.

        Args:
            family: The family.
            places: Those members; not none.
            bounds: Seconds, shape (places,).
        """
        lowest = float(bounds.min())
        for name, value in shared_values(family.exemplar):
            self._lower(name, value, lowest)
        for name, values in (
            ("pipeline_parallel", family.pipeline[places]),
            ("virtual_stages", family.virtual[places]),
            ("data_parallel", family.data[places]),
        ):
            self._lower_each(name, values, bounds)
        self._schedules(family, places, bounds)
        self._variants(family, places, bounds)
        if isinstance(family, PooledFamily):
            for place, bound in zip(places.tolist(), bounds.tolist(), strict=True):
                self._lower("stage_pools", pools_value(family.assigned[place]), bound)

    def least(self) -> Least:
        """By field and value; fields of which nothing is known have none."""
        found: Least = {name: {} for name in FIELDS}
        for (name, value), bound in self._least.items():
            if math.isfinite(bound):
                found[name][value] = bound
        return found

    def _lower(self, name: str, value: Value | None, bound: float) -> None:
        self._least[name, value] = min(bound, self._least[name, value])

    def _lower_each(self, name: str, values: Index, bounds: Floats) -> None:
        for value, bound in _least_of_each(values, bounds):
            self._lower(name, value, bound)

    def _schedules(self, family: Family, places: Index, bounds: Floats) -> None:
        alone = family.pipeline[places] == 1
        if alone.any():
            self._lower("schedule", ANY, float(bounds[alone].min()))
        names = sorted(set(family.schedule))
        codes = np.array([names.index(family.schedule[place]) for place in places.tolist()])
        for code, bound in _least_of_each(codes[~alone], bounds[~alone]):
            self._lower("schedule", names[code], bound)

    def _variants(self, family: Family, places: Index, bounds: Floats) -> None:
        """ZeRO stages, sharding groups and rank orders: the same for equally many replicas."""
        keys = 2 * family.data[places] + (family.pipeline[places] > 1)
        for key, bound in _least_of_each(keys, bounds):
            data, piped = divmod(key, 2)
            for order in family.orders(data, bool(piped)):
                value = order if piped and data > 1 else ANY
                self._lower("rank_order", value, bound)
            replicas = data * family.exemplar.context_parallel
            for zero in family.zero_stages:
                groups = family.groups(data, zero)
                if groups:
                    self._lower("zero_stage", zero, bound)
                for group in groups if zero else ():
                    self._lower("sharding_group", group or replicas, bound)


def _least_of_each(values: Index, bounds: Floats) -> list[tuple[int, float]]:
    if not len(values):
        return []
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    first = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    low = np.minimum.reduceat(bounds[order], first)
    return list(zip(ascending[first].tolist(), low.tolist(), strict=True))
