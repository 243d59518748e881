"""Drawings as SVG text. Colours and fonts are classes of ``static/pictures.css``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files

WIDTH = 1120.0
"""Width of every picture in its own units; pages scale it."""

NARROW = 380.0
"""Width of the pictures that a phone shows instead."""

_HEAD, _MARGIN, _SIGN_WIDTH = 46.0, 20.0, 6.3
_STROKES, _DOTS = ("critical", "limit", "curve"), ("solved", "useful", "wasteful")
_VARIABLE = re.compile(r"(--[a-z-]+): ([^;]+);")


@dataclass(frozen=True)
class Boxes:
    """Many boxes of one style as one element, for a browser takes its time over each.

    ``tips`` are shown when a box is pointed at: by the script of the page, or, where there is none,
    by the browser, for which every box has to be an element of its own.
    """

    style: str
    commands: list[str]
    tips: list[str]

    def drawn(self, *, scripted: bool) -> str:
        """The markup."""
        if not self.tips or scripted:
            tips = f' data-tips="{escape("|".join(self.tips))}"' if self.tips else ""
            return f'<path class="{self.style}"{tips} d="{"".join(self.commands)}"/>'
        return "".join(
            f'<path class="{self.style}" d="{commands}"><title>{escape(tip)}</title></path>'
            for commands, tip in zip(self.commands, self.tips, strict=True)
        )


@dataclass
class Drawing:
    """A picture under construction. ``title`` and ``description`` are read out instead of it."""

    title: str
    description: str
    height: float = 0.0
    width: float = WIDTH
    parts: list[str | Boxes] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    """Style and words of what the colours mean; a page says it itself, a file carries it."""

    def rectangle(
        self, x: float, y: float, width: float, height: float, style: str, tip: str | None = None
    ) -> None:
        """A rectangle; ``tip`` shows when it is pointed at."""
        box = f'<rect class="{style}" x="{n(x)}" y="{n(y)}" width="{n(width)}" height="{n(height)}"'
        self.parts.append(f"{box}><title>{escape(tip)}</title></rect>" if tip else box + "/>")

    def path(self, commands: str, style: str, tip: str | None = None) -> None:
        """A path; nothing if there are no commands. ``tip`` shows when it is pointed at."""
        if commands:
            shape = f'<path class="{style}" d="{commands}"'
            self.parts.append(
                f"{shape}><title>{escape(tip)}</title></path>" if tip else shape + "/>"
            )

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

    def boxes(self, style: str, commands: list[str], tips: list[str] | None = None) -> None:
        """Boxes of one style, each with its tip or none with any."""
        if commands:
            self.parts.append(Boxes(style, commands, tips or []))

    def inline(self, *, scripted: bool = False) -> str:
        """For a page, whose style sheets it follows; ``scripted`` if ``plan.js`` shows its tips."""
        return self._element(' class="picture"', scripted=scripted)

    def standalone(self, caption: str = "") -> str:
        """A file of its own, in light colours, with its title, a ``caption`` and its legend."""
        foot, foot_height = _drawn_legend(self.legend, self.width, _HEAD + self.height)
        width, height = self.width + 2 * _MARGIN, _HEAD + self.height + foot_height + 2 * _MARGIN
        return self._element(
            f' class="picture" xmlns="http://www.w3.org/2000/svg" width="{n(width)}"'
            f' height="{n(height)}"',
            f"<style>{_style_sheet()}</style>"
            f'<rect class="paper" width="{n(width)}" height="{n(height)}"/>'
            f'<g transform="translate({n(_MARGIN)} {n(_MARGIN)})">'
            f'<text class="strong title" y="14">{escape(self.title)}</text>'
            f'<text class="muted" y="32">{escape(caption)}</text>'
            f'<g transform="translate(0 {n(_HEAD)})">',
            f"</g>{foot}</g>",
            f"0 0 {n(width)} {n(height)}",
        )

    def _element(
        self,
        attributes: str,
        head: str = "",
        foot: str = "",
        box: str = "",
        *,
        scripted: bool = False,
    ) -> str:
        box = box or f"0 0 {n(self.width)} {n(self.height)}"
        parts = [
            part if isinstance(part, str) else part.drawn(scripted=scripted) for part in self.parts
        ]
        return (
            f'<svg{attributes} viewBox="{box}" role="img"'
            f' aria-label="{escape(f"{self.title}. {self.description}")}">'
            f"{head}{''.join(parts)}{foot}</svg>"
        )


def _drawn_legend(legend: list[tuple[str, str]], width: float, top: float) -> tuple[str, float]:
    """The legend in as many lines as it needs, and its height."""
    if not legend:
        return "", 0.0
    drawn, x, y = [], 0.0, top + 22.0
    for style, words in legend:
        needed = 20.0 + len(words) * _SIGN_WIDTH
        if x and x + needed > width:
            x, y = 0.0, y + 18.0
        drawn.append(f'<path class="{style}" d="{key(style, x, y - 9)}"/>')
        drawn.append(f'<text class="small" x="{n(x + 19)}" y="{n(y)}">{escape(words)}</text>')
        x += needed + 14.0
    return "".join(drawn), y - top + 4.0


def key(style: str, x: float = 0.0, y: float = 0.0) -> str:
    """The commands of a legend's sign, 14 by 11, in the form that the picture uses it."""
    first = style.split()[0]
    if first in _STROKES:
        return f"M{n(x)} {n(y + 5)}h14"
    if first == "knee":
        return dot(x + 7, y + 5.5, 5) + dot(x + 7, y + 5.5, 1.5)
    if first in _DOTS:
        return dot(x + 7, y + 5.5, 4)
    if first == "only-bound":
        return arrow(x + 3, y + 5.5, 4.5)
    return cross(x + 7, y + 5.5) if first == "nothing-fits" else box(x + 1, y, 11, 10)


def n(number: float) -> str:
    """A coordinate, to a tenth."""
    return f"{number:.1f}".removesuffix(".0")


def box(x: float, y: float, width: float, height: float) -> str:
    """The commands of a rectangle within a path."""
    return f"M{n(x)} {n(y)}h{n(width)}v{n(height)}h-{n(width)}z"


def dot(x: float, y: float, radius: float) -> str:
    """The commands of a circle within a path."""
    across = n(2 * radius)
    half = f"a{n(radius)} {n(radius)} 0 1 0"
    return f"M{n(x - radius)} {n(y)}{half} {across} 0{half} -{across} 0z"


def cross(x: float, y: float) -> str:
    """The commands of a cross within a path."""
    return f"M{n(x - 3)} {n(y - 3)}l6 6m0 -6l-6 6"


def arrow(x: float, y: float, radius: float) -> str:
    """The commands of a triangle within a path; its base is at ``x`` and it points to the right."""
    return f"M{n(x)} {n(y - radius)}v{n(2 * radius)}l{n(1.6 * radius)} -{n(radius)}z"


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


@dataclass(frozen=True)
class SizeUnit:
    """The unit of an axis of bytes."""

    bytes: float
    name: str

    def label(self, count: float) -> str:
        """A number of bytes in this unit."""
        return f"{count / self.bytes:.10g} {self.name}"

    def ticks(self, most: float, number: int) -> list[float]:
        """Round numbers of this unit from none to ``most``, in bytes."""
        return [tick * self.bytes for tick in ticks(0.0, most / self.bytes, number)]


def size_unit(most: float) -> SizeUnit:
    """The unit in which the largest size reads best."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if most >= 0.9 * 2.0**power:
            return SizeUnit(2.0**power, name)
    return SizeUnit(1.0, "B")


@cache
def _style_sheet() -> str:
    """The rules for pictures with the light colours put in: many viewers know no variables."""
    sheet = files("service.pages").joinpath("static", "pictures.css").read_text("utf-8")
    colours = dict(_VARIABLE.findall(sheet[: sheet.index("}")]))
    rules = sheet[sheet.index(".picture {") :]
    return re.sub(r"var\((--[a-z-]+)\)", lambda found: colours[found[1]], rules)
