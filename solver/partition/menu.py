"""What a stage may choose from: the least recompute time of a run of blocks that fits its memory.

The partition sees runs only by how many blocks of each kind they hold, and asks a menu. A free menu
lets every block choose from its kind's frontier; a ruled one does what a framework's policy says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.partition.runs import Signatures
from solver.recompute.choice import Choice

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Asked = tuple[tuple[int, ...], float, int]
"""What a menu is asked for: the counts of a run, its state bytes, micro-batches in flight."""


@dataclass(frozen=True)
class Mix:
    """A stage's choices: ``parts`` are (kind, choice, count) by kind and choice.

    ``seconds`` is the recompute time per micro-batch; ``bound`` is at most the least possible.
    ``charged`` is the part of ``seconds`` by which recompute in windows lengthens collectives.
    ``ahead``: the rest runs ahead of the gradient; known where stages share devices.
    """

    seconds: float
    bound: float
    parts: tuple[tuple[int, int, int], ...]
    charged: float = 0.0
    ahead: bool = False


@dataclass(frozen=True)
class Part:
    """``count`` blocks of one kind on a stage that share a choice.

    With ``group`` above 1 the blocks are recomputed in groups of that many, and only each group's
    first input is kept (Megatron-LM's ``uniform``).
    """

    kind: int
    choice: Choice
    count: int
    group: int = 1

    @property
    def kept_bytes(self) -> float:
        """Bytes kept per micro-batch by all blocks of the part."""
        return -(-self.count // self.group) * self.choice.kept_bytes

    @property
    def recompute_bytes(self) -> float:
        """The buffer while one group runs backward: its tensors and its inner inputs."""
        size = min(self.group, self.count)
        return size * self.choice.recompute_bytes + (size - 1) * self.choice.kept_bytes

    @property
    def seconds(self) -> float:
        """Recompute seconds per micro-batch of all blocks of the part."""
        return self.count * self.choice.seconds


class Menu(ABC):
    """The choices of one model under one policy."""

    def signatures(self) -> Signatures | None:
        """The runs that this menu tells apart, where it needs more than their counts.

        Their ``counts`` then have further columns behind those of the kinds.
        """
        return None

    def signature(self, run: tuple[int, ...], kinds: int) -> tuple[int, ...]:
        """The row of counts that this menu knows a run of block kinds by."""
        return tuple(run.count(kind) for kind in range(kinds))

    @abstractmethod
    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Least recompute seconds at best, shape (runs,); infinite where a run cannot fit.

        Args:
            counts: Blocks of each kind, shape (runs, kinds).
            states: State bytes, shape (runs,).
            in_flight: Micro-batches in flight, shape (runs,).
        """

    def knows(self, counts: Index) -> Bools:
        """For which runs ``bounds`` gives the least seconds themselves, shape (runs,)."""
        return np.zeros(len(counts), dtype=bool)

    @abstractmethod
    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The cheapest mix of a signature, or None if nothing fits."""

    def cheapest_of(self, asked: Sequence[Asked]) -> list[Mix | None]:
        """The cheapest mix of each of several runs."""
        return [self.cheapest(*one) for one in asked]

    def at(self, device: int) -> Menu:
        """The menu of one device of the pipeline; the same one where all devices are alike."""
        del device
        return self

    def ahead(self) -> Menu:
        """The menu of stages that recompute ahead of the gradient, where schedules have that.

        Raises:
            TypeError: Stages of this menu recompute on demand only.
        """
        raise TypeError(f"{type(self).__name__} recomputes on demand")

    @abstractmethod
    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The choices behind a mix."""

    @abstractmethod
    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Bytes that runs need at least, reserved bytes included; shape (in_flights, runs)."""

    @abstractmethod
    def slowest(self, counts: Index) -> Floats:
        """Recompute seconds that no mix of a run exceeds; shape (runs,)."""

    def quick(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Recompute seconds of mixes that are quickly made, shape (runs,); infinite for no mix.

        Args:
            counts, states, in_flight: As of ``bounds``.
        """
        del states, in_flight
        return np.full(len(counts), np.inf)
