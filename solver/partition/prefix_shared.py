"""Stages that share devices where each re-runs so many of its first layers (``prefix_menu.py``).

The chunks of a device share its memory, so their numbers are chosen together. Of the numbers that
fit at every moment those count than which no others are faster on every chunk; all of them are
simulated, over all devices, where they are few, which proves the best one. Where they are many, a
device takes the numbers of least seconds in all, or such as a step-by-step choice finds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from solver.partition.candidates import Cut
from solver.partition.footprints import Footprints, given_footprints
from solver.partition.menu import Index, Mix
from solver.partition.prefix_menu import PrefixMenu
from solver.partition.ruled_shared import RuledSharedProblem
from solver.partition.split_descent import Plan

FEW_SPLITS = 500
"""Splits up to which all are tried."""

MOST_NUMBERS = 5_000
"""Numbers of a device's chunks up to which all are looked at."""

MOST_PLANS = 256
"""Plans of one split up to which all are simulated."""

Chosen = tuple[Mix, ...]


class PrefixSharedProblem(RuledSharedProblem):
    """One layout's partition over stages that share devices; arguments as ``SharedProblem``."""

    _rule: PrefixMenu

    def _is_small(self) -> bool:
        """Whether all splits are tried."""
        if self._split is not None:
            return True
        cuts = math.comb(len(self._costs.sequence) - 1, self._schedule.depth - 1)
        return cuts <= FEW_SPLITS

    def _complete(self, cuts: tuple[Cut, ...]) -> list[Plan]:
        """A split with all numbers that may be best, or with the least of every device."""
        runs = [int(self._signatures.of_run[cut]) for cut in cuts]
        if min(runs) < 0 or not self._admitted[runs].all():
            return []
        found = [
            self._ways(device, np.array([runs[s] for s in self._schedule.stages_of(device)]))
            for device in range(self._schedule.devices)
        ]
        if math.prod(map(len, found)) > MOST_PLANS:
            self._cut_short = True
            found = [[min(ways, key=_seconds)] for ways in found]
        return [(cuts, self._in_order(ways)) for ways in itertools.product(*found)]

    def _in_order(self, by_device: tuple[Chosen, ...]) -> tuple[Mix, ...]:
        """Mixes of all stages."""
        mixes: dict[int, Mix] = {}
        for device, chosen in enumerate(by_device):
            mixes |= zip(self._schedule.stages_of(device), chosen, strict=True)
        return tuple(mixes[stage] for stage in sorted(mixes))

    def _ways(self, device: int, runs: Index) -> list[Chosen]:
        """Mixes of a device's chunks that fit, those left out that others beat on every chunk."""
        if not self._admitted[runs].all():
            return []
        ways = [self._rule.mixes(self._counts_tuple(int(run))) for run in runs]
        if math.prod(map(len, ways)) > MOST_NUMBERS:
            self._cut_short = True
            return self._step_by_step(device, runs, ways)
        best: list[Chosen] = []
        for chosen in sorted(itertools.product(*ways), key=_seconds):
            beaten = any(
                all(a.seconds <= b.seconds for a, b in zip(other, chosen, strict=True))
                for other in best
            )
            if not beaten and self._fits(device, runs, chosen):
                best.append(chosen)
        return best

    def _step_by_step(self, device: int, runs: Index, ways: list[tuple[Mix, ...]]) -> list[Chosen]:
        """From nothing on, one layer more on the chunk where that saves most, until all fits."""
        at = [0] * len(ways)

        def with_one_more(chunk: int | None) -> Chosen:
            return tuple(
                way[number + (this == chunk)]
                for this, (way, number) in enumerate(zip(ways, at, strict=True))
            )

        while not self._fits(device, runs, with_one_more(None)):
            more = [chunk for chunk, number in enumerate(at) if number + 1 < len(ways[chunk])]
            if not more:
                return []
            needed = [self._bytes_of(device, runs, with_one_more(chunk)) for chunk in more]
            at[more[needed.index(min(needed))]] += 1
        return [with_one_more(None)]

    def _fits(self, device: int, runs: Index, chosen: Chosen) -> bool:
        return self._bytes_of(device, runs, chosen) <= self._costs.capacity_bytes * (1 + 1e-12)

    def _counts_tuple(self, run: int) -> tuple[int, ...]:
        return tuple(self._signatures.counts[run].tolist())

    def _footprints(self) -> Footprints:
        """Every run with each number of layers."""
        counts = self._signatures.counts
        return given_footprints(
            self._costs,
            counts,
            [
                [self._way(mix) for mix in self._rule.mixes(self._counts_tuple(run))]
                for run in range(len(counts))
            ],
        )


def _seconds(chosen: Chosen) -> float:
    return sum(mix.seconds for mix in chosen)
