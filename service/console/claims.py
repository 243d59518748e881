"""What became of a plan's claims, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from solver.recheck import Claim, Verdict

_MARKS = {
    Verdict.HOLDS: ("✓ holds", "green"),
    Verdict.FALSE: ("✗ false", "bold red"),
    Verdict.NOT_CHECKED: ("– not checked", "yellow"),
}


def claims_shown(claims: Sequence[Claim]) -> RenderableType:
    """One claim after the other: the verdict, what is claimed, and how it was seen."""
    lines: list[RenderableType] = []
    for claim in claims:
        mark, style = _MARKS[claim.verdict]
        lines.append(
            Text.assemble((f"{mark}  ", style), f"{claim.claim[:1].upper()}{claim.claim[1:]}.")
        )
        lines.append(Text(f"    {claim.how}", style="dim"))
    return Group(*lines)
