"""What bounds need to know of a family's members, whatever their blocks take.

Most families of a space have members of the same sizes, so it is reckoned once for all of those.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from solver.layouts.family import Family
from solver.layouts.pooled import PooledFamily
from solver.search.bound import OWN_PATHS_KNOWN, bubble

Index = npt.NDArray[np.int64]

_IDLE = {"zb-h1": 1 / 3, "zb-v": 1 / 6, "chimera": 1 / 2}
"""About what share of the bubble of 1F1B a schedule leaves, for estimates only."""


class Members:
    """Sizes of a family's members and what follows from them alone.

    ``pipeline``, ``virtual``, ``micro_batches``, ``factors`` (of the bubble's bound), ``idle`` (of
    an estimate) and the flags ``known`` (own-paths of the schedule are), ``gpipe`` and ``halved``
    (micro-batches are, between two copies of the model) have shape (members,). Of members that
    agree in what a bound depends on one is reckoned: ``shapes`` are the distinct columns of
    pipeline, micro-batches, whether chunked, and whether ``known``; ``shape`` says which each
    member has, ``chunk`` which of the numbers of ``chunks`` in all. ``pools``: the pool of every
    stage, shape (members, stages), -1 beyond the last; None where there are none.
    """

    def __init__(
        self,
        pipeline: Index,
        virtual: Index,
        micro_batches: Index,
        schedule: tuple[str, ...],
        pools: Index | None = None,
    ) -> None:
        self.pipeline, self.virtual, self.micro_batches = pipeline, virtual, micro_batches
        names = sorted(set(schedule))
        number = np.array([names.index(name) for name in schedule])
        self.known = np.array([name in OWN_PATHS_KNOWN for name in names])[number]
        self.gpipe = np.array([name == "gpipe" for name in names])[number]
        self.halved = np.array([name == "chimera" for name in names])[number]
        self.idle = np.array([_IDLE.get(name, 1.0) for name in names])[number]
        rows = (number.tolist(), pipeline.tolist(), virtual.tolist(), micro_batches.tolist())
        factors = [bubble(names[k], p, v, n)[0] for k, p, v, n in zip(*rows, strict=True)]
        self.factors = np.array(factors, dtype=np.float64)
        distinct = np.stack([pipeline, micro_batches, virtual > 1, self.known])
        self.shapes, which = np.unique(distinct, axis=1, return_inverse=True)
        self.shape = which.ravel()
        self.chunks, self.chunk = np.unique(pipeline * virtual, return_inverse=True)
        self.pools = pools

    @staticmethod
    def of(family: Family) -> Members:
        """Those of a family; of families whose members have the same sizes, the same."""
        if isinstance(family, PooledFamily):
            sizes = (family.pipeline, family.virtual, family.micro_batches)
            return Members(*sizes, family.schedule, family.pool_of_stage())
        table = np.stack([family.pipeline, family.virtual, family.micro_batches])
        return _members(table.tobytes(), family.schedule)


@lru_cache(maxsize=2048)
def _members(table: bytes, schedule: tuple[str, ...]) -> Members:
    pipeline, virtual, micro_batches = np.frombuffer(table, dtype=np.int64).reshape(3, -1)
    return Members(pipeline, virtual, micro_batches, schedule)
