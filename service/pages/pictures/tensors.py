"""Which tensors each block keeps: a grid, blocks from left to right, tensors from top to bottom.

Of a tensor that waits in host memory the cell is filled from below, as far as its share that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from service.console.quantities import size
from service.pages.pictures.svg import NARROW, WIDTH, Drawing, box
from solver.plan import BlockKind, Stage

_TOP, _ROW = 40.0, 17.0
_LEAST_CELL = 4.0
_LETTER = 5.9


@dataclass(frozen=True)
class Column:
    """One block of the model: where it stands, what it recomputes, and which share of each tensor
    it has in host memory.
    """

    stage: int
    kind: str
    recomputed: frozenset[str] = frozenset()
    offloaded: Mapping[str, float] = field(default_factory=dict)


def columns(stages: list[Stage]) -> list[Column]:
    """The blocks in model order; blocks of a kind on a stage are interchangeable."""
    found: list[Column] = []
    for position, stage in enumerate(stages):
        choices: dict[str, list[Column]] = {}
        for part in stage.recompute:
            column = Column(position, part.block, frozenset(part.recomputed), part.offloaded)
            choices.setdefault(part.block, []).extend([column] * part.count)
        for kind, count in stage.blocks:
            mine = choices.get(kind, [])
            taken, choices[kind] = mine[:count], mine[count:]
            found += taken + [Column(position, kind)] * (count - len(taken))
    return found


@dataclass(frozen=True)
class _Grid:
    """Where the cells are: ``left`` and ``right`` are margins, ``cell`` is a block's width."""

    width: float
    left: float
    right: float
    cell: float

    @staticmethod
    def of(blocks: int, width: float, longest: int) -> _Grid:
        """``longest``: letters of the longest name of a tensor."""
        left, right = (210.0, 86.0) if width > NARROW else (12.0 + longest * _LETTER, 62.0)
        left = min(left, width / 2)
        return _Grid(width, left, right, (width - left - right) / blocks)

    def x(self, block: int) -> float:
        return self.left + block * self.cell


def tensors(stages: list[Stage], kinds: dict[str, BlockKind], width: float = WIDTH) -> Drawing:
    """The grid. A tensor of the block kinds that differ in name has a row of its own."""
    blocks = columns(stages)
    needed_by = {
        name: frozenset(tensor.name for tensor in kind.tensors if tensor.needed)
        for name, kind in kinds.items()
    }
    offloads = any(block.offloaded for block in blocks)
    rows = _rows(kinds)
    if any("x" in block.offloaded for block in blocks):
        rows.insert(0, "x")
        needed_by = {kind: names | {"x"} for kind, names in needed_by.items()}
    grid = _Grid.of(len(blocks), width, max(map(len, rows), default=0))
    bottom = _TOP + len(rows) * _ROW
    kept = sum(len(needed_by[block.kind] - block.recomputed) for block in blocks)
    needed = sum(len(needed_by[block.kind]) for block in blocks)
    drawing = Drawing(
        "What each block keeps",
        f"{len(blocks)} blocks; {kept} of {needed} needed tensors are kept.",
        height=bottom + 6,
        width=width,
        legend=[
            ("kept", "Kept for backward"),
            ("recompute", "Recomputed"),
            *([("offloaded", "In host memory")] if offloads else []),
            ("not-needed", "Not in this block"),
        ],
    )
    sizes = {tensor.name: tensor.bytes for kind in kinds.values() for tensor in kind.tensors}
    sizes["x"] = max((kind.input_bytes for kind in kinds.values()), default=0.0)
    for position, name in enumerate(rows):
        y = _TOP + position * _ROW
        words = "input" if name == "x" else name.replace("_", " ")
        drawing.text(grid.left - 8, y + 12, words, "end small")
        drawing.text(width - grid.right + 8, y + 12, size(sizes.get(name, 0.0)), "small muted")
        _row(drawing, grid, y, [_style(block, name, needed_by) for block in blocks])
        _offloaded(drawing, grid, y, [block.offloaded.get(name, 0.0) for block in blocks])
    _stage_marks(drawing, grid, stages, blocks, bottom)
    return drawing


def _rows(kinds: dict[str, BlockKind]) -> list[str]:
    """Names of tensors that some block needs, in forward order, kinds one after another."""
    names: dict[str, None] = {}
    for kind in kinds.values():
        names.update((tensor.name, None) for tensor in kind.tensors if tensor.needed)
    return list(names)


def _style(block: Column, tensor: str, needed_by: dict[str, frozenset[str]]) -> str:
    if tensor in block.recomputed:
        return "recompute"
    return "kept" if tensor in needed_by[block.kind] else "not-needed"


def _row(drawing: Drawing, grid: _Grid, y: float, styles: list[str]) -> None:
    """A cell per block; cells too narrow for a gap between them are joined."""
    gap = min(1.0, grid.cell / 6)
    cells: dict[str, list[str]] = {}
    for style, first, count in _runs(styles):
        drawn = cells.setdefault(style, [])
        if grid.cell < _LEAST_CELL:
            drawn.append(box(grid.x(first), y + 1, count * grid.cell, _ROW - 2))
        else:
            drawn += [
                box(grid.x(block), y + 1, grid.cell - gap, _ROW - 2)
                for block in range(first, first + count)
            ]
    for style, drawn in cells.items():
        drawing.path("".join(drawn), style)


def _offloaded(drawing: Drawing, grid: _Grid, y: float, shares: list[float]) -> None:
    """What is in host memory, over the cells."""
    gap = 0.0 if grid.cell < _LEAST_CELL else min(1.0, grid.cell / 6)
    drawn = []
    for block, share in enumerate(shares):
        if share > 0:
            height = share * (_ROW - 2)
            drawn.append(box(grid.x(block), y + _ROW - 1 - height, grid.cell - gap, height))
    if drawn:
        drawing.path("".join(drawn), "offloaded")


def _runs(styles: list[str]) -> Iterator[tuple[str, int, int]]:
    """Style, first block and number of blocks of every run of equal cells."""
    first = 0
    for style, run in groupby(styles):
        count = len(list(run))
        yield style, first, count
        first += count


def _stage_marks(
    drawing: Drawing, grid: _Grid, stages: list[Stage], blocks: list[Column], bottom: float
) -> None:
    """A name over every stage and a line between stages; names stand where there is room."""
    start, free = 0, 0.0
    for position, stage in enumerate(stages):
        count = sum(block.stage == position for block in blocks)
        left, right = grid.x(start), grid.x(start + count)
        if position:
            drawing.line(left - 0.5, _TOP - 22, left - 0.5, bottom, "axis")
        middle = (left + right) / 2
        name = f"stage {stage.index}" if stage.chunk is None else f"{stage.index}·{stage.chunk}"
        if right - left >= 52:
            drawing.text(middle, _TOP - 24, name, "middle small")
            drawing.text(
                middle,
                _TOP - 9,
                f"{count} {'block' if count == 1 else 'blocks'}",
                "middle small muted",
            )
        elif middle >= free:
            drawing.text(middle, _TOP - 24, str(stage.index), "middle small")
            free = middle + 18
        start += count
