"""The classes of failed node sets: up to so many nodes, and whole leafs, stages and replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solver.contingencies.cells import Cells, Key
from solver.errors import BadRequest

MOST_CLASSES = 4000


@dataclass(frozen=True)
class Failure:
    """A class of failures: an example, how many sets are like it, and its name."""

    failed: tuple[int, ...]
    node_sets: int
    title: str


def failures(cells: Cells, leafs: Sequence[str | None], most_failed: int) -> list[Failure]:
    """Every class of up to ``most_failed`` nodes, then leafs, stages and replicas as wholes.

    Raises:
        BadRequest: These are too many.
    """
    found: dict[Key, Failure] = {}
    last: dict[Key, tuple[int, ...]] = {(): ()}
    for _ in range(min(most_failed, cells.count - 1)):
        grown: dict[Key, tuple[int, ...]] = {}
        for example in last.values():
            for position in range(cells.count):
                if position not in example:
                    larger = tuple(sorted((*example, position)))
                    grown.setdefault(cells.key(larger), larger)
            if len(found) + len(grown) > MOST_CLASSES:
                raise BadRequest(
                    f"These are more than {MOST_CLASSES} classes of failures.",
                    field="most_failed",
                    hint="Ask for fewer failed nodes; larger failures are answered by what is "
                    "left.",
                )
        for key, example in grown.items():
            found[key] = Failure(example, cells.alike(key), title(cells, example))
        last = grown
    for name, example in _wholes(cells, leafs):
        key = cells.key(example)
        if key not in found and len(example) < cells.count:
            found[key] = Failure(example, cells.alike(key), name)
    return list(found.values())


def _wholes(cells: Cells, leafs: Sequence[str | None]) -> Iterator[tuple[str, tuple[int, ...]]]:
    by_leaf: dict[str, list[int]] = defaultdict(list)
    by_stage: dict[int, list[int]] = defaultdict(list)
    by_replica: dict[int, list[int]] = defaultdict(list)
    for position, leaf in enumerate(leafs):
        if leaf is not None:
            by_leaf[leaf].append(position)
        for stage in cells.stages[position]:
            by_stage[stage].append(position)
        for replica in cells.replicas[position]:
            by_replica[replica].append(position)
    for members in by_leaf.values():
        yield "a whole leaf", tuple(members)
    for stage, members in by_stage.items():
        yield f"all of stage {stage}", tuple(members)
    for members in by_replica.values():
        yield "a whole replica", tuple(members)


def title(cells: Cells, failed: Sequence[int]) -> str:
    """A failure in words: its nodes by what they hold."""
    if len(failed) == 1:
        return f"a node of {_stages(cells, failed[0])}"
    replicas = [set(cells.replicas[position]) for position in failed]
    together = all(one & replicas[0] for one in replicas[1:])
    parts = ", ".join(_stages(cells, position) for position in failed)
    where = "of one replica" if together else "of different replicas"
    return f"{len(failed)} nodes: {parts}, {where}"


def _stages(cells: Cells, position: int) -> str:
    stages = cells.stages[position]
    if len(stages) == 1:
        return f"stage {stages[0]}"
    return f"stages {stages[0]} to {stages[-1]}"
