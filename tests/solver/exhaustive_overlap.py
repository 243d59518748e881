"""The slow twin of overlapped recompute: every tensor in every place, every stage ahead or not.

Written from the contract's words and sharing no code with the solver but the cost types.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache

from solver.costs.pipeline import Block, OpKind, PipelineCosts
from tests.solver.exhaustive import in_flight, offload_budgets, order


@dataclass(frozen=True)
class Way:
    """One way to run a block: bytes kept, rebuilt and held early, seconds on demand, and the
    seconds used of each of its own windows and of the following block's."""

    kept: float
    seconds: float
    rebuilt: float
    early: float
    own: tuple[float, ...]
    following: tuple[float, ...]


def window_ops(block: Block) -> list[int]:
    return [i for i, op in enumerate(block.ops) if op.kind is OpKind.COMMUNICATION]


def block_ways(
    block: Block,
    following: Block | None,
    slowdown: float,
    *,
    windows: bool,
    offload_bytes: float = 0.0,
) -> list[Way]:
    """Every legal way, those that no other beats in every respect.

    Of what is kept so many bytes, in any parts, need not be on the device.
    """
    needed = sorted({t for op in block.ops for t in op.backward_reads} - {"x"})
    own = window_ops(block) if windows else []
    later = window_ops(following) if windows and following is not None else []
    # In the order of time: the following block's windows, last op first, then the block's own.
    slots = [("following", i) for i in reversed(later)] + [("own", i) for i in reversed(own)]
    length = [
        (following if where == "following" else block).ops[i].backward_seconds / slowdown  # type: ignore[union-attr]
        for where, i in slots
    ]
    found = set()
    for size in range(len(needed) + 1):
        for kept in itertools.combinations(needed, size):
            again = [name for name in needed if name not in kept]
            rerun: set[str] = set()
            while again:
                name = again.pop()
                if name not in rerun:
                    rerun.add(name)
                    op = next(o for o in block.ops if o.name == name)
                    again += [t for t in op.inputs if t != "x" and t not in kept]
            ops = [op for op in block.ops if op.name in rerun]
            options = [
                [None, *range(len(slots))] if op.kind is OpKind.COMPUTE else [None] for op in ops
            ]
            for places in itertools.product(*options):
                place = {op.name: p for op, p in zip(ops, places, strict=True)}
                if not _legal(block, place, slots):
                    continue
                used = [0.0] * len(slots)
                for op in ops:
                    if place[op.name] is not None:
                        used[place[op.name]] += op.forward_seconds
                if any(u > cap * (1 + 1e-12) for u, cap in zip(used, length, strict=True)):
                    continue
                lent = sum(1 for where, _ in slots if where == "following")
                found.add(
                    Way(
                        max(
                            block.input_bytes
                            + sum(o.output_bytes for o in block.ops if o.name in kept)
                            - offload_bytes,
                            0.0,
                        ),
                        sum(o.forward_seconds for o in ops if place[o.name] is None),
                        sum(o.output_bytes for o in ops),
                        sum(
                            o.output_bytes
                            for o in ops
                            if place[o.name] is not None and place[o.name] < lent
                        ),
                        tuple(used[lent:]),
                        tuple(used[:lent]),
                    )
                )
    return _best(found)


def _legal(block: Block, place: dict[str, int | None], slots: list[tuple[str, int]]) -> bool:
    ops = {op.name: op for op in block.ops}
    for name, slot in place.items():
        if slot is None:
            continue
        for source in ops[name].inputs:
            if source in place and (place[source] is None or place[source] > slot):  # type: ignore[operator]
                return False
        where, at = slots[slot]
        if where == "own" and any(
            reader >= at for reader in _readers(block, name, frozenset(place))
        ):
            return False
    return True


def _readers(block: Block, name: str, rerun: frozenset[str]) -> list[int]:
    """Ops that read in backward the tensor or any tensor recomputed from it, however far on."""
    reached = {name}
    for op in block.ops:
        if op.name in rerun and reached.intersection(op.inputs):
            reached.add(op.name)
    return [i for i, op in enumerate(block.ops) if reached.intersection(op.backward_reads)]


def _best(ways: set[Way]) -> list[Way]:
    def all_of(way: Way) -> tuple[float, ...]:
        return (way.kept, way.seconds, way.rebuilt, way.early, *way.own, *way.following)

    listed = sorted(ways, key=all_of)
    left: list[Way] = []
    for way in listed:
        if not any(all(a <= b for a, b in zip(all_of(w), all_of(way), strict=True)) for w in left):
            left.append(way)
    return left


def stage_times(
    costs: PipelineCosts,
    run: tuple[int, ...],
    flight: int,
    overlap: str,
    budgets: tuple[float, ...] = (),
    staging: float = 0.0,
) -> list[tuple[float, float]]:
    """Every best (seconds in the backward, seconds recomputed ahead of it) that fits a stage.

    ``budgets``: what of each kind may wait in host memory, but for stages that recompute ahead;
    ``staging``: bytes set aside for that.
    """
    windows = overlap in ("communication", "all")
    room = costs.capacity_bytes * (1 + 1e-12) - staging
    room -= sum(costs.blocks[k].states.total for k in run)
    least = least_ahead = math.inf
    for kept, seconds, working, *_ in _chains(costs, run, windows, budgets):
        if flight * kept + working <= room:
            least = min(least, seconds)
    if overlap in ("stalls", "all"):
        for kept, seconds, _, rebuilt, *_ in _chains(costs, run, windows, ()):
            if flight * kept + rebuilt <= room:
                least_ahead = min(least_ahead, seconds)
    best = [(least, 0.0)] if math.isfinite(least) else []
    return best + ([(0.0, least_ahead)] if math.isfinite(least_ahead) and least_ahead else [])


def _chains(
    costs: PipelineCosts, run: tuple[int, ...], windows: bool, budgets: tuple[float, ...]
) -> set[_Chain]:
    """(kept, seconds, largest working memory, rebuilt in all, early bytes and use of the last way)
    of every way to run a stage's blocks that no other beats."""
    slowdown = costs.overlapping.slowdown
    blocks = [costs.blocks[k] for k in run]
    chains: set[_Chain] = {(0.0, 0.0, 0.0, 0.0, 0.0, ())}
    for at, block in enumerate(blocks):
        following = blocks[at + 1] if at + 1 < len(blocks) else None
        ways = _ways(block, following, slowdown, windows, budgets[run[at]] if budgets else 0.0)
        lengths = [block.ops[i].backward_seconds / slowdown for i in reversed(window_ops(block))]
        grown = set()
        for kept, seconds, working, rebuilt, early, lent in chains:
            for way in ways:
                used = way.own
                if lent and used:
                    used = tuple(a + b for a, b in zip(lent, used, strict=True))
                if any(u > cap * (1 + 1e-12) for u, cap in zip(used, lengths, strict=False)):
                    continue
                grown.add(
                    (
                        kept + way.kept,
                        seconds + way.seconds,
                        max(working, way.rebuilt + early),
                        rebuilt + way.rebuilt,
                        way.early,
                        way.following,
                    )
                )
        chains = _thin(grown)
    return chains


_Chain = tuple[float, float, float, float, float, tuple[float, ...]]


def _thin(chains: set[_Chain]) -> set[_Chain]:
    """Without those that another beats in every respect."""

    def flat(chain: _Chain) -> tuple[float, ...]:
        return (*chain[:5], *chain[5])

    left: list[_Chain] = []
    for chain in sorted(chains, key=flat):
        mine = flat(chain)
        if not any(all(a <= b for a, b in zip(flat(c), mine, strict=True)) for c in left):
            left.append(chain)
    return set(left)


@cache
def _ways(
    block: Block, following: Block | None, slowdown: float, windows: bool, offload_bytes: float
) -> list[Way]:
    return block_ways(block, following, slowdown, windows=windows, offload_bytes=offload_bytes)


def makespan(
    schedule: str,
    forward: list[float],
    backward: list[float],
    ahead: list[float],
    n: int,
    send: float,
) -> float:
    """Run every task as soon as it may; R(s, m) stands before B(s, m) and waits for nobody."""
    stages = len(forward)
    waiting: list[list[tuple[str, int]]] = []
    for s in range(stages):
        tasks = []
        for work, m in order(schedule, s, stages, n):
            if work == "B" and ahead[s] > 0:
                tasks.append(("R", m))
            tasks.append((work, m))
        waiting.append(tasks)
    clock = [0.0] * stages
    end: dict[tuple[str, int, int], float] = {}
    while any(waiting):
        for s in range(stages):
            while waiting[s]:
                work, m = waiting[s][0]
                needs = None
                if work == "F" and s:
                    needs = ("F", s - 1, m)
                elif work == "B":
                    needs = ("B", s + 1, m) if s < stages - 1 else ("F", s, m)
                if needs is not None and needs not in end:
                    break
                ready = 0.0
                if needs is not None:
                    ready = end[needs] + (send if needs[1] != s else 0.0)
                lasts = {"F": forward, "B": backward, "R": ahead}[work][s]
                clock[s] = max(clock[s], ready) + lasts
                end[work, s, m] = clock[s]
                waiting[s].pop(0)
    return max(clock)


def offloading_optimum(costs: PipelineCosts, schedule: str, stages: int, overlap: str) -> float:
    """The same where activations may wait in host memory, or none do.

    Where recompute may stand in windows, a block more is on every device.
    """
    most = max(in_flight(schedule, s, stages, costs.micro_batches) for s in range(stages))
    budgets, _ = offload_budgets(costs, most, stages)
    largest = max(budgets[kind] for kind in costs.sequence)
    found = [optimum(costs, schedule, stages, overlap)]
    if largest:
        without = {"communication": "off", "all": "stalls"}.get(overlap, overlap)
        found.append(optimum(costs, schedule, stages, without, budgets, 3 * largest))
    if largest and overlap in ("communication", "all"):
        found.append(optimum(costs, schedule, stages, overlap, budgets, 4 * largest))
    return min(found)


def optimum(
    costs: PipelineCosts,
    schedule: str,
    stages: int,
    overlap: str,
    budgets: tuple[float, ...] = (),
    staging: float = 0.0,
) -> float:
    """The least makespan over every cut, every place of every tensor, every stage's timing."""
    length, n = len(costs.sequence), costs.micro_batches
    known: dict[tuple[tuple[int, ...], int], list[tuple[float, float]]] = {}
    best = math.inf
    for cuts in itertools.combinations(range(1, length), stages - 1):
        options, forward = [], []
        for s, (a, b) in enumerate(itertools.pairwise((0, *cuts, length))):
            run = costs.sequence[a:b]
            key = (run, in_flight(schedule, s, stages, n))
            if key not in known:
                known[key] = stage_times(costs, run, key[1], overlap, budgets, staging)
            forward.append(sum(costs.blocks[k].forward_seconds for k in run))
            plain = sum(costs.blocks[k].backward_seconds for k in run)
            options.append([(plain + seconds, ahead) for seconds, ahead in known[key]])
        for picked in itertools.product(*options):
            backward = [b for b, _ in picked]
            ahead = [a for _, a in picked]
            found = makespan(schedule, forward, backward, ahead, n, costs.send_seconds)
            best = min(best, found)
    return best
