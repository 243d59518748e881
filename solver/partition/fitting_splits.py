"""Whether any split fits devices that share their memory among chunks, and one that does.

A split misses what its fullest device needs beyond its capacity, least held (``footprints.py``).
Whether there is one that misses nothing is decided in three steps, each for what the one before
left open.

**Prices.** With prices y >= 0 on the moments of all devices that add up to 1, every split misses at
least (weak duality) ::

    min over splits of  sum over stages s of  g[s, run of s]  -  sum over moments y room
    g[s, run] = states sum y + min over its ways of (sum y alive) kept + (sum y, s acting) buffer

which is a shortest path over cuts. Moments that are too full in its split get a higher price and
the rest a lower one (multiplicative weights, Arora, Hazan and Kale 2012). A run through which every
path is longer than nothing is in no split that fits.

**Most blocks.** Of the runs left, the most blocks that each device can hold: if all devices
together hold fewer than there are, nothing fits. ::

    maximise   sum over its stages s of  length[r] y[s, r, w]
    over       y[s, r, w] in {0, 1} for run r of stage s held in way w, one for every stage
    (memory)   at every moment of the device what its runs need is at most its room

**Program.** Both together: for all devices y as above, their runs follow one another without gap,
and no device holds more than its most blocks.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from ortools.math_opt.python import mathopt

from solver.errors import SolverFailed
from solver.partition.candidates import Candidates, Cut, sums_after, sums_before
from solver.partition.footprints import Footprints, Moments, least_held
from solver.partition.menu import Bools, Floats, Index
from solver.quiet import quiet
from solver.schedules import Schedule

ROUNDS, QUICK, RATE = 80, 8, 4.0
"""Changes of prices, those at least, and how fast they follow at first."""

MOST_COLUMNS = 60_000
"""Runs in their ways up to which the program is made."""

MOST_NODES = 2_000
"""Nodes of a program."""

ROOM = 1e4
"""What a program counts a device's room as."""

ROUNDING = 1e-9
"""Part of the capacity that is no proof: sums of bytes may be off by it, and so may a program."""

MARGIN = 1e-6
"""Part of a block by which a program's tolerances may make its bound too small."""

MOST_STEPS, REACH = 50, 8
"""Blocks passed on from the fullest device of a split, and over how many stages."""

Column = tuple[int, int, int]
"""A run in one of its ways: stage, signature, way."""


@dataclass(frozen=True)
class LeastMissing:
    """What is known of the split that misses least.

    ``cuts`` of the best split found, ``missing`` the bytes by which its fullest device misses, not
    above zero where it fits, ``device`` that one and ``needed`` its bytes. ``nothing_fits``: it is
    proved that every split misses something.
    """

    cuts: tuple[Cut, ...]
    device: int
    needed: float
    missing: float
    nothing_fits: bool


class FittingSplits:
    """Which split of a pipeline misses least.

    Args:
        candidates: The runs that stages may hold; some split is made of them.
        footprints: In how little memory each can be held.
        schedule: Who shares a device, and when it is full.
        capacity_bytes: Of a device.
        reserved_bytes: Of these, what no run may take.
    """

    def __init__(
        self,
        candidates: Candidates,
        footprints: Footprints,
        schedule: Schedule,
        capacity_bytes: float,
        reserved_bytes: float,
    ) -> None:
        self._candidates, self._footprints = candidates, footprints
        self._schedule = schedule
        self._capacity, self._reserved = capacity_bytes, reserved_bytes
        self._room = capacity_bytes - reserved_bytes
        self._moments = [Moments.of(schedule, device) for device in range(schedule.devices)]
        self._best: tuple[float, int, float, tuple[Cut, ...]] | None = None
        self._known: dict[tuple[int, tuple[int, ...]], float] = {}
        self._proved = False
        self._slack = ROUNDING * capacity_bytes
        self._alive = candidates.connected(candidates.alive)

    def least_missing(
        self, first: list[tuple[Cut, ...]], deadline: float, *, quick: bool = False
    ) -> LeastMissing:
        """A split that fits, if one is found; else one that misses little.

        Args:
            first: Splits to begin with, if the stages may hold them.
            deadline: When to stop, as ``time.monotonic``.
            quick: That none fits is known already.
        """
        for cuts in first:
            if self._candidates.admits(cuts):
                self._look_at(cuts)
        if self._best is None or not self._fits():
            self._follow_prices(deadline, QUICK if quick else ROUNDS)
        if not quick and self._is_open():
            most = self._most_blocks(deadline)
            if self._is_open():
                self._solve_program(most, deadline)
        assert self._best is not None, "prices lead to some split"
        missing, device, needed, cuts = self._best
        return LeastMissing(cuts, device, needed, missing, self._proved and missing > 0)

    def _fits(self) -> bool:
        return self._best is not None and self._best[0] <= 0

    def _is_open(self) -> bool:
        """Whether it is not known yet if anything fits."""
        return not self._fits() and not self._proved

    # -- single splits -----------------------------------------------------------------------

    def _look_at(self, cuts: tuple[Cut, ...]) -> None:
        """Remember a split that misses less than the best so far, or what it can be made."""
        needs = self._needs(cuts)
        for _ in range(MOST_STEPS):
            if max(needs) <= self._capacity:
                break
            device = needs.index(max(needs))
            others = [(self._needs(moved), moved) for moved in self._relieved(cuts, device)]
            least, moved = min(others, key=_fullest, default=(needs, cuts))
            if _fullest((least, moved)) >= _fullest((needs, cuts)):
                break
            needs, cuts = least, moved
        most = max(needs)
        if self._best is None or most - self._capacity < self._best[0]:
            self._best = (most - self._capacity, needs.index(most), most, cuts)

    def _relieved(self, cuts: tuple[Cut, ...], device: int) -> list[tuple[Cut, ...]]:
        """Splits in which a chunk of a device passes one block on to a stage nearby."""
        edges = [0, *(stop for _, stop in cuts)]
        depth = self._schedule.depth
        found = []
        for stage in {stage % depth for stage in self._schedule.stages_of(device)}:
            if edges[stage + 1] - edges[stage] == 1:
                continue
            for other in range(max(stage - REACH, 0), min(stage + REACH + 1, depth)):
                ends, step = list(edges), 1 if other < stage else -1
                for at in range(min(stage, other) + 1, max(stage, other) + 1):
                    ends[at] += step
                moved = tuple(itertools.pairwise(ends))
                if other != stage and self._candidates.admits(moved):
                    found.append(moved)
        return found

    def _needs(self, cuts: tuple[Cut, ...]) -> list[float]:
        """Bytes that every device needs at least."""
        runs = [self._candidates.run_of(stage, cut) for stage, cut in enumerate(cuts)]
        depth = self._schedule.depth
        return [
            self._needed(device, tuple(runs[s % depth] for s in self._schedule.stages_of(device)))
            for device in range(self._schedule.devices)
        ]

    def _needed(self, device: int, runs: tuple[int, ...]) -> float:
        if (device, runs) not in self._known:
            found, here = self._footprints, list(runs)
            at, waiting = self._moments[device], found.waiting[here]
            held, _ = least_held(at, found.kept[here], found.buffers[here], waiting)
            total = float(found.states[here].sum()) + held + self._reserved
            self._known[device, runs] = total
        return self._known[device, runs]

    # -- prices ------------------------------------------------------------------------------

    def _follow_prices(self, deadline: float, rounds: int) -> None:
        """Look at the splits of least priced bytes; leave out runs of which no better one is."""
        count = [len(at.alive) for at in self._moments]
        device_of = np.repeat(np.arange(len(count)), count)
        weight = np.zeros(len(device_of))
        for turn in range(rounds):
            if turn and time.monotonic() > deadline:
                return
            price = np.exp(weight - weight.max())
            price /= price.sum()
            split = np.split(price, np.cumsum(count)[:-1])
            costs, ways = self._priced(split)
            ahead, behind = sums_before(costs), sums_after(costs)
            cuts = self._path(costs, ahead)
            self._look_at(cuts)
            self._proved |= float(ahead[-1][0]) - self._room > self._slack
            if self._fits() or (self._proved and turn + 1 >= QUICK):
                return
            if not self._proved:
                through = ahead[:-1, :, None] + costs + behind[1:, None, :] - self._room
                self._alive &= through <= self._slack
            over = self._excess(cuts, ways, count)
            weight += RATE / math.sqrt(turn + 1.0) * over / max(float(np.abs(over).max()), 1e-300)

    def _priced(self, price: list[Floats]) -> tuple[Floats, list[Index]]:
        """Every run's part of the priced bytes, and each stage's best way per signature."""
        schedule, found = self._schedule, self._footprints
        candidates = self._candidates
        costs = np.zeros(candidates.runs.shape)
        ways = []
        for stage in range(schedule.stages):
            device, place = schedule.device(stage), stage % schedule.depth
            at, own = self._moments[device], price[schedule.device(stage)]
            chunk = schedule.stages_of(device).index(stage)
            alive, waiting = float(own @ at.alive[:, chunk]), float(own @ at.waiting[:, chunk])
            acting = float(own[at.acting == chunk].sum())
            each = np.where(np.isfinite(found.kept), alive * found.kept, math.inf)
            each = each + acting * found.buffers if alive else acting * found.buffers
            each = np.where(np.isfinite(found.kept), each, math.inf)
            way = each.argmin(axis=1)
            least = each[np.arange(len(each)), way]
            least = least + float(own.sum()) * found.states + waiting * found.waiting
            costs[place] += least[candidates.runs[place]]
            ways.append(way)
        return np.where(self._alive, costs, math.inf), ways

    def _path(self, costs: Floats, ahead: Floats) -> tuple[Cut, ...]:
        """The split of least priced bytes."""
        cuts: list[Cut] = []
        stop = 0
        for stage in reversed(range(len(costs))):
            start = int((ahead[stage] + costs[stage][:, stop]).argmin())
            cuts.append(self._candidates.cut(stage, start, stop))
            stop = start
        return tuple(reversed(cuts))

    def _excess(self, cuts: tuple[Cut, ...], ways: list[Index], count: list[int]) -> Floats:
        """What a split in these ways needs beyond its room, at every moment of all devices."""
        runs, found = self._candidates.runs_of(cuts), self._footprints
        over = []
        for device, at in enumerate(self._moments):
            stages = self._schedule.stages_of(device)
            here = runs[[stage % self._schedule.depth for stage in stages]]
            way = [int(ways[stage][run]) for stage, run in zip(stages, here, strict=True)]
            needed = at.needed(found.kept[here, way], found.buffers[here, way], found.waiting[here])
            over.append(needed + found.states[here].sum() - self._room)
        assert [len(one) for one in over] == count
        return np.concatenate(over)

    # -- programs ----------------------------------------------------------------------------

    def _columns(self, device: int) -> list[Column]:
        """What the stages of a device may hold, each run once for each of its ways."""
        depth = self._schedule.depth
        found = []
        for stage in self._schedule.stages_of(device):
            place = stage % depth
            runs = np.unique(self._candidates.runs[place][self._alive[place]])
            found += [(stage, run, way) for run in runs.tolist() for way in self._ways(run)]
        return found

    def _ways(self, run: int) -> list[int]:
        """The ways of a run, those left out that keep as much as one with a smaller buffer."""
        kept = self._footprints.kept[run]
        falls = np.append(True, kept[1:] < kept[:-1]) & np.isfinite(kept)
        return np.flatnonzero(falls).tolist()

    def _most_blocks(self, deadline: float) -> list[int] | None:
        """The most blocks that each device can hold; None if that was not found out.

        Where all together hold too few, nothing fits.
        """
        depth = self._schedule.depth
        lengths = self._footprints.lengths
        known: dict[tuple[object, ...], int] = {}
        most = []
        for device in range(self._schedule.devices):
            columns = self._columns(device)
            at = self._moments[device]
            chunks = self._schedule.stages_of(device)
            alike = tuple((chunks.index(stage), run, way) for stage, run, way in columns)
            key = alike, at.alive.tobytes(), at.waiting.tobytes(), at.acting.tobytes()
            if key not in known:
                if time.monotonic() > deadline:
                    return None
                model = mathopt.Model(name="most blocks")
                taken = {column: model.add_binary_variable() for column in columns}
                for stage in chunks:
                    own = [y for column, y in taken.items() if column[0] == stage]
                    model.add_linear_constraint(mathopt.fast_sum(own) == 1.0)
                self._add_memory(model, device, taken)
                model.maximize(
                    mathopt.fast_sum([float(lengths[c[1]]) * y for c, y in taken.items()])
                )
                result = _solved(model, deadline)
                if result.termination.reason is mathopt.TerminationReason.INFEASIBLE:
                    self._proved = True
                    return None
                bound = result.termination.objective_bounds.dual_bound
                if not math.isfinite(bound):
                    return None
                known[key] = math.floor(bound + MARGIN)
            most.append(known[key])
        copies = self._schedule.stages // depth
        total = int(self._candidates.offset[-1]) * copies
        self._proved = sum(most) < total
        return most

    def _solve_program(self, most: list[int] | None, deadline: float) -> None:
        """A split that fits, of the runs left, or the proof that there is none."""
        alive: Bools = self._candidates.connected(self._alive)
        if not alive.any():
            self._proved = True
            return
        ways = self._footprints.kept.shape[1] * (self._schedule.stages // self._schedule.depth)
        if int(alive.sum()) * ways > MOST_COLUMNS or time.monotonic() > deadline:
            return
        model = mathopt.Model(name="fitting splits")
        chosen = self._add_cover(model, alive)
        lengths = self._footprints.lengths
        for device in range(self._schedule.devices):
            taken: dict[Column, mathopt.Variable] = {}
            for stage in self._schedule.stages_of(device):
                runs: dict[int, list[mathopt.Variable]] = defaultdict(list)
                for y, cut in chosen[stage % self._schedule.depth]:
                    runs[self._candidates.run_of(stage % self._schedule.depth, cut)].append(y)
                for run, same in runs.items():
                    own = {(stage, run, w): model.add_binary_variable() for w in self._ways(run)}
                    total = mathopt.fast_sum(list(own.values()))
                    model.add_linear_constraint(total == mathopt.fast_sum(same))
                    taken |= own
            self._add_memory(model, device, taken)
            if most is not None:
                held = mathopt.fast_sum([float(lengths[c[1]]) * y for c, y in taken.items()])
                model.add_linear_constraint(held <= float(most[device]))
        result = _solved(model, deadline)
        self._proved = result.termination.reason is mathopt.TerminationReason.INFEASIBLE
        if result.has_primal_feasible_solution():
            values = result.variable_values()
            cuts = [max(own, key=lambda column: values[column[0]])[1] for own in chosen]
            self._look_at(tuple(cuts))

    def _add_cover(
        self, model: mathopt.Model, alive: Bools
    ) -> list[list[tuple[mathopt.Variable, Cut]]]:
        """Per stage of one copy its runs; they follow one another without gap."""
        depth = self._schedule.depth
        chosen: list[list[tuple[mathopt.Variable, Cut]]] = [[] for _ in range(depth)]
        flow: dict[tuple[int, int], list[mathopt.LinearTerm | mathopt.Variable]]
        flow = defaultdict(list)
        for place, start, stop in np.argwhere(alive).tolist():
            taken = model.add_binary_variable()
            chosen[place].append((taken, self._candidates.cut(place, start, stop)))
            flow[place, start].append(-1.0 * taken)
            flow[place + 1, stop].append(taken)
        for (place, _), terms in flow.items():
            ends = {0: -1.0, depth: 1.0}.get(place, 0.0)
            model.add_linear_constraint(mathopt.fast_sum(terms) == ends)
        return chosen

    def _add_memory(
        self, model: mathopt.Model, device: int, taken: dict[Column, mathopt.Variable]
    ) -> None:
        found, at = self._footprints, self._moments[device]
        chunk = {stage: at for at, stage in enumerate(self._schedule.stages_of(device))}
        unit = self._room / ROOM
        for moment in range(len(at.alive)):
            terms = []
            for (stage, run, way), y in taken.items():
                size = float(at.alive[moment, chunk[stage]] * found.kept[run, way])
                size += float(at.waiting[moment, chunk[stage]] * found.waiting[run])
                size += float(found.states[run])
                if at.acting[moment] == chunk[stage]:
                    size += float(found.buffers[run, way])
                terms.append(size / unit * y)
            model.add_linear_constraint(mathopt.fast_sum(terms) <= ROOM * (1 + ROUNDING))


def _fullest(split: tuple[list[float], tuple[Cut, ...]]) -> list[float]:
    """By what the fullest device of a split needs, then the next fullest, and so on."""
    return sorted(split[0], reverse=True)


def _solved(model: mathopt.Model, deadline: float) -> mathopt.SolveResult:
    """What HiGHS makes of a program; one thread and a fixed seed, so that it has one answer."""
    parameters = mathopt.SolveParameters(
        node_limit=MOST_NODES,
        time_limit=timedelta(seconds=max(deadline - time.monotonic(), 0.1)),
        random_seed=0,
    )
    try:
        with quiet():
            return mathopt.solve(model, mathopt.SolverType.HIGHS, params=parameters)
    except Exception as failure:  # MathOpt wraps every solver error in odd types
        raise SolverFailed(f"Whether a split fits could not be decided: {failure}") from None
