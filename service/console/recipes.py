"""Letters for what blocks recompute, so that a table can name each in one sign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from solver.plan import BlockRecompute, Stage


class Recipes:
    """The letters given so far, in the order in which they came up."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def of(self, stage: Stage) -> str:
        """What the stage recomputes: ``12 A, 7 B``, or ``nothing``."""
        counts = Counter[str]()
        for part in stage.recompute:
            if part.recomputed or part.whole:
                counts[self._letter(_recipe(part))] += part.count
        return ", ".join(f"{count} {letter}" for letter, count in sorted(counts.items())) or (
            "nothing"
        )

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Every letter with what a block under it does: ``("A", "layer recomputes …")``."""
        return [(letter, recipe) for recipe, letter in self._letters.items()]

    def _letter(self, recipe: str) -> str:
        number = len(self._letters)
        turn, place = divmod(number, 26)
        name = chr(ord("A") + place) + (str(turn + 1) if turn else "")
        return self._letters.setdefault(recipe, name)


def _recipe(part: BlockRecompute) -> str:
    if part.whole:
        runs = f"{part.group} of them at a time" if part.group > 1 else "whole"
        return f"{part.block} is run again, {runs}"
    hidden = [placed.tensor for placed in part.placed]
    hiding = f"; hidden under communication: {_condensed(hidden)}" if hidden else ""
    return f"{part.block} recomputes {_condensed(part.recomputed)}{hiding}"


def _condensed(tensors: Sequence[str]) -> str:
    """Names, those of one module brought together: ``mlp.{up, gate}``."""
    modules: dict[str, list[str]] = {}
    for name in tensors:
        module, dot, part = name.partition(".")
        modules.setdefault(module if dot else name, []).append(part)
    return ", ".join(_module(module, parts) for module, parts in modules.items())


def _module(module: str, parts: list[str]) -> str:
    if parts == [""]:
        return module
    return f"{module}.{parts[0]}" if len(parts) == 1 else f"{module}.{{{', '.join(parts)}}}"
