"""Drawings as SVG text. Colours and fonts are classes of ``static/pictures.css``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files

WIDTH = 1120.0
"""Width of every picture in its own units; pages scale it."""


@dataclass
class Drawing:
    """A picture under construction. ``title`` and ``description`` are read out instead of it."""

    title: str
    description: str
    height: float = 0.0
    width: float = WIDTH
    parts: list[str] = field(default_factory=list)

    def rectangle(
        self, x: float, y: float, width: float, height: float, style: str, tip: str | None = None
    ) -> None:
        """A rectangle; ``tip`` shows when it is pointed at."""
        box = f'<rect class="{style}" x="{n(x)}" y="{n(y)}" width="{n(width)}" height="{n(height)}"'
        self.parts.append(f"{box}><title>{escape(tip)}</title></rect>" if tip else box + "/>")

    def path(self, commands: str, style: str) -> None:
        """A path; nothing if there are no commands."""
        if commands:
            self.parts.append(f'<path class="{style}" d="{commands}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """A straight line."""
        self.path(f"M{n(x1)} {n(y1)}L{n(x2)} {n(y2)}", style)

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        """One line of text; ``start`` is the default anchor, ``middle`` and ``end`` are styles."""
        kind = f' class="{style}"' if style else ""
        self.parts.append(f'<text{kind} x="{n(x)}" y="{n(y)}">{escape(words)}</text>')

    def raw(self, markup: str) -> None:
        """Markup as it is."""
        self.parts.append(markup)

    def inline(self) -> str:
        """For a page, whose style sheets it follows."""
        return self._element(' class="picture"')

    def standalone(self) -> str:
        """A file of its own, in light colours."""
        return self._element(
            ' class="picture standalone" data-theme="light" xmlns="http://www.w3.org/2000/svg"'
            f' width="{n(self.width)}" height="{n(self.height)}"',
            f"<style>{_style_sheet()}</style>"
            f'<rect class="paper" width="{n(self.width)}" height="{n(self.height)}"/>',
        )

    def _element(self, attributes: str, head: str = "") -> str:
        return (
            f'<svg{attributes} viewBox="0 0 {n(self.width)} {n(self.height)}" role="img"'
            f' aria-label="{escape(f"{self.title}. {self.description}")}">'
            f"{head}{''.join(self.parts)}</svg>"
        )


def n(number: float) -> str:
    """A coordinate, to a tenth."""
    return f"{number:.1f}".removesuffix(".0")


def box(x: float, y: float, width: float, height: float) -> str:
    """The commands of a rectangle within a path."""
    return f"M{n(x)} {n(y)}h{n(width)}v{n(height)}h-{n(width)}z"


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most ``most`` round numbers from ``low`` to ``high``."""
    span = high - low
    if span <= 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(
        power * factor for factor in (1, 2, 2.5, 5, 10, 20) if span / (power * factor) <= most
    )
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


@dataclass(frozen=True)
class TimeUnit:
    """The unit of a time axis."""

    seconds: float
    name: str

    def label(self, seconds: float) -> str:
        """A moment in this unit."""
        return f"{seconds / self.seconds:.10g}"


def time_unit(longest: float) -> TimeUnit:
    """The unit in which the longest time reads best."""
    for unit in (TimeUnit(1.0, "s"), TimeUnit(1e-3, "ms")):
        if longest >= 0.9 * unit.seconds:
            return unit
    return TimeUnit(1e-6, "µs")


@cache
def _style_sheet() -> str:
    sheet = files("service.pages").joinpath("static", "pictures.css")
    return sheet.read_text("utf-8").replace("]]>", "")
