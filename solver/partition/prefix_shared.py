"""Stages that share devices where each re-runs so many of its first layers (``prefix_menu.py``).

The chunks of a device share its memory, so their numbers are chosen together. Of the numbers that
fit at every moment those count than which no others are faster on every chunk; all of them are
simulated, over all devices, where they are few, which proves the best one. Where they are many, a
device takes the numbers of least seconds in all, or such as a step-by-step choice finds.
"""

from __future__ import annotations

import itertools
import math

from solver.partition.candidates import Cut
from solver.partition.footprints import Footprints, given_footprints
from solver.partition.menu import Mix
from solver.partition.prefix_menu import PrefixMenu
from solver.partition.ruled_shared import RuledSharedProblem
from solver.partition.shared import Plan

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
        found = [self._of_device(runs, device) for device in range(self._schedule.devices)]
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

    def _of_device(self, runs: list[int], device: int) -> list[Chosen]:
        """Mixes of a device's chunks that fit, those left out that others beat on every chunk."""
        stages = self._schedule.stages_of(device)
        ways = [self._rule.mixes(self._counts_tuple(runs[stage])) for stage in stages]
        if math.prod(map(len, ways)) > MOST_NUMBERS:
            self._cut_short = True
            return self._step_by_step(runs, device, ways)
        best: list[Chosen] = []
        for chosen in sorted(itertools.product(*ways), key=_seconds):
            beaten = any(
                all(a.seconds <= b.seconds for a, b in zip(other, chosen, strict=True))
                for other in best
            )
            if not beaten and self._fits(runs, device, chosen):
                best.append(chosen)
        return best

    def _step_by_step(
        self, runs: list[int], device: int, ways: list[tuple[Mix, ...]]
    ) -> list[Chosen]:
        """From nothing on, one layer more on the chunk where that saves most, until all fits."""
        at = [0] * len(ways)
        while True:
            chosen = tuple(way[number] for way, number in zip(ways, at, strict=True))
            if self._fits(runs, device, chosen):
                return [chosen]
            more = [chunk for chunk, number in enumerate(at) if number + 1 < len(ways[chunk])]
            if not more:
                return []
            at[min(more, key=lambda chunk: self._with_one_more(runs, device, ways, at, chunk))] += 1

    def _with_one_more(
        self, runs: list[int], device: int, ways: list[tuple[Mix, ...]], at: list[int], chunk: int
    ) -> float:
        """A device's bytes with one layer more of a chunk run again."""
        numbers = [number + (this == chunk) for this, number in enumerate(at)]
        chosen = tuple(way[number] for way, number in zip(ways, numbers, strict=True))
        return self._bytes_with(runs, device, chosen)

    def _fits(self, runs: list[int], device: int, chosen: Chosen) -> bool:
        return self._bytes_with(runs, device, chosen) <= self._costs.capacity_bytes * (1 + 1e-12)

    def _bytes_with(self, runs: list[int], device: int, chosen: Chosen) -> float:
        of_stage = dict(zip(self._schedule.stages_of(device), chosen, strict=True))
        mixes = tuple(of_stage.get(stage, chosen[0]) for stage in range(len(runs)))
        return self._device_bytes(runs, mixes, device)

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
