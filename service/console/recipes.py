"""Letters for what blocks recompute, so that a table can name each in one sign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from solver.plan import BlockRecompute, Stage


class Recipes:
    """The letters given so far, in the order in which they came up."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def of(self, stage: Stage) -> str:
        """What the stage recomputes or offloads: ``12 A, 7 B``, or ``nothing``."""
        counts = Counter[str]()
        for part in stage.recompute:
            if part.recomputed or part.whole or part.offloaded:
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
    again = f"recomputes {_condensed(part.recomputed)}{hiding}" if part.recomputed else ""
    away = f"has {_away(part.offloaded)} in host memory" if part.offloaded else ""
    return f"{part.block} {' and '.join(filter(None, [again, away]))}"


def _away(offloaded: Mapping[str, float]) -> str:
    """Tensors in host memory, and of the one that is there in part how much."""
    names = {name: "its input" if name == "x" else name for name in offloaded}
    whole = [name for name, share in offloaded.items() if share == 1.0]
    found = [names["x"]] if "x" in whole else []
    found += [_condensed([name for name in whole if name != "x"])] if set(whole) - {"x"} else []
    parts = [(name, share) for name, share in offloaded.items() if share < 1.0]
    found += [f"{share:.0%} of {names[name]}" for name, share in parts]
    return ", ".join(found)


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
