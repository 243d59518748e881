"""The two small languages among Megatron-LM's flags: layer patterns and pipeline layouts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from solver.errors import BadRequest
from solver.workload.families.common import MOST_LAYERS
from solver.workload.megatron.flags import wrong

_MOST_SYMBOLS = 4 * MOST_LAYERS


def layer_pattern(flag: str, text: str, layers: int) -> list[bool]:
    """Which layers a pattern picks, such as ``--moe-layer-freq``.

    A number N picks every N-th layer, the first one included. Otherwise a Python list of zeros and
    ones, made with + and *: ``([0]*3+[1]*58)``. The expression is parsed, not evaluated.

    Raises:
        BadRequest: It is neither, or does not give one value per layer.
    """
    text = text.strip()
    if re.fullmatch(r"\d{1,9}", text):
        period = int(text)
        if period < 1:
            raise wrong(flag, f"{flag} is 0; every how many layers must be 1 or more.")
        return [layer % period == 0 for layer in range(layers)]
    values = _ListExpression(flag, text).value()
    if len(values) != layers:
        raise wrong(flag, f"{flag} gives {len(values)} values for {layers} layers.")
    if any(value not in (0, 1) for value in values):
        raise wrong(flag, f"{flag} must be made of zeros and ones.")
    return [value == 1 for value in values]


class _ListExpression:
    """Sums and multiples of lists of numbers; a repeated list never grows beyond any model."""

    def __init__(self, flag: str, text: str) -> None:
        self._flag = flag
        self._text = text
        self._tokens = re.findall(r"\d{1,9}|\S", text[:10_000])
        self._at = 0
        self._depth = 0

    def value(self) -> list[int]:
        values = self._sum()
        if self._at != len(self._tokens):
            raise self._unreadable()
        return values

    def _sum(self) -> list[int]:
        values = self._product()
        while self._take("+"):
            values = self._bounded(values + self._product())
        return values

    def _product(self) -> list[int]:
        values = self._atom()
        while self._take("*"):
            times = self._number()
            if times * len(values) > MOST_LAYERS:
                raise wrong(self._flag, f"{self._flag} gives more than {MOST_LAYERS} values.")
            values = values * times
        return values

    def _atom(self) -> list[int]:
        self._depth += 1
        if self._depth > 50:
            raise self._unreadable()
        if self._take("("):
            values = self._sum()
            self._expect(")")
        else:
            self._expect("[")
            values = [self._number()]
            while self._take(","):
                values.append(self._number())
            self._expect("]")
        self._depth -= 1
        return self._bounded(values)

    def _number(self) -> int:
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if not token.isdigit():
            raise self._unreadable()
        self._at += 1
        return int(token)

    def _take(self, token: str) -> bool:
        found = self._tokens[self._at : self._at + 1] == [token]
        self._at += found
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._unreadable()

    def _bounded(self, values: list[int]) -> list[int]:
        if len(values) > MOST_LAYERS:
            raise wrong(self._flag, f"{self._flag} gives more than {MOST_LAYERS} values.")
        return values

    def _unreadable(self) -> BadRequest:
        return wrong(
            self._flag,
            f"{self._flag} cannot be read: {self._text[:60]!r}.",
            "Give a whole number or a list such as ([0]*3+[1]*58).",
        )


@dataclass(frozen=True)
class StageContent:
    """What one (virtual) pipeline stage holds, in model order."""

    embedding: bool = False
    layers: int = 0
    predictions: int = 0
    loss: bool = False

    @property
    def blocks(self) -> int:
        """Embedding, layers, prediction modules and head, each a block."""
        return self.embedding + self.layers + self.predictions + self.loss


def pipeline_layout(flag: str, text: str) -> list[StageContent]:
    """The stages of ``--pipeline-model-parallel-layout``.

    ``|`` ends a stage; E embedding, t layer, m multi-token-prediction module, L loss; ``x*n``
    repeats a symbol and ``(...)*n`` a group; commas mean nothing.

    Raises:
        BadRequest: Another symbol stands there, or the order is not E, t, m, L.
    """
    symbols = _unrolled(flag, re.sub(r"[\s,]", "", text))
    stages = symbols.split("|")
    whole = "".join(stages)
    if not re.fullmatch(r"Et*m*L", whole):
        raise wrong(
            flag,
            f"{flag} must name the embedding first, then layers, then multi-token-prediction "
            "modules, then the loss, E and L once each.",
            "For example 'Et*3|(tt|)*29,m|L'.",
        )
    return [
        StageContent("E" in stage, stage.count("t"), stage.count("m"), "L" in stage)
        for stage in stages
    ]


def _unrolled(flag: str, text: str) -> str:
    """The layout with every group and then every symbol repeated."""
    unrolled = re.sub(
        r"\(([^()]*)\)(?:\*(\d{1,4}))?", lambda group: _repeated(flag, group), text[:10_000]
    )
    unrolled = re.sub(r"(.)\*(\d{1,4})", lambda symbol: _repeated(flag, symbol), unrolled)
    stray = re.search(r"[^EtmL|]", unrolled)
    if stray is not None:
        raise wrong(
            flag,
            f"{flag} has a {stray[0]!r} that cannot be read.",
            "Symbols are E, t, m, L and |; x*n and (...)*n repeat.",
        )
    if len(unrolled) > _MOST_SYMBOLS:
        raise wrong(flag, f"{flag} has more than {_MOST_SYMBOLS} symbols.")
    return unrolled


def _repeated(flag: str, match: re.Match[str]) -> str:
    times = int(match[2] or 1)
    if times * len(match[1]) > _MOST_SYMBOLS:
        raise wrong(flag, f"{flag} has more than {_MOST_SYMBOLS} symbols.")
    return match[1] * times
