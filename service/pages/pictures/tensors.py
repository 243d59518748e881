"""Which tensors each block keeps: a grid, blocks from left to right, tensors from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass

from service.console.quantities import size
from service.pages.pictures.svg import WIDTH, Drawing, box
from solver.plan import BlockKind, Stage

_LEFT, _RIGHT, _TOP, _ROW = 210.0, 86.0, 40.0, 17.0


@dataclass(frozen=True)
class Column:
    """One block of the model: where it stands and what it recomputes."""

    stage: int
    kind: str
    recomputed: frozenset[str]


def columns(stages: list[Stage]) -> list[Column]:
    """The blocks in model order; blocks of a kind on a stage are interchangeable."""
    found: list[Column] = []
    for position, stage in enumerate(stages):
        choices: dict[str, list[frozenset[str]]] = {}
        for part in stage.recompute:
            choices.setdefault(part.block, []).extend([frozenset(part.recomputed)] * part.count)
        for kind, count in stage.blocks:
            mine = choices.get(kind, [])
            taken, choices[kind] = mine[:count], mine[count:]
            taken += [frozenset()] * (count - len(taken))
            found.extend(Column(position, kind, recomputed) for recomputed in taken)
    return found


def tensors(stages: list[Stage], kinds: dict[str, BlockKind]) -> Drawing:
    """The grid. A tensor of the block kinds that differ in name has a row of its own."""
    blocks = columns(stages)
    needed_by = {
        name: frozenset(tensor.name for tensor in kind.tensors if tensor.needed)
        for name, kind in kinds.items()
    }
    rows = _rows(kinds)
    width = (WIDTH - _LEFT - _RIGHT) / len(blocks)
    bottom = _TOP + len(rows) * _ROW
    kept = sum(len(needed_by[block.kind] - block.recomputed) for block in blocks)
    needed = sum(len(needed_by[block.kind]) for block in blocks)
    drawing = Drawing(
        "What each block keeps",
        f"{len(blocks)} blocks; {kept} of {needed} needed tensors are kept.",
        height=bottom + 6,
    )
    sizes = {tensor.name: tensor.bytes for kind in kinds.values() for tensor in kind.tensors}
    for position, name in enumerate(rows):
        _row(drawing, name, _TOP + position * _ROW, blocks, needed_by, sizes.get(name, 0.0), width)
    _stage_marks(drawing, stages, blocks, width, bottom)
    return drawing


def _rows(kinds: dict[str, BlockKind]) -> list[str]:
    """Names of tensors that some block needs, in forward order, kinds one after another."""
    names: dict[str, None] = {}
    for kind in kinds.values():
        names.update((tensor.name, None) for tensor in kind.tensors if tensor.needed)
    return list(names)


def _row(
    drawing: Drawing,
    name: str,
    y: float,
    blocks: list[Column],
    needed_by: dict[str, frozenset[str]],
    count: float,
    width: float,
) -> None:
    drawing.text(_LEFT - 8, y + 12, name.replace("_", " "), "end small")
    drawing.text(WIDTH - _RIGHT + 8, y + 12, size(count), "small muted")
    gap = min(1.0, width / 6)
    cells: dict[str, list[str]] = {"kept": [], "recompute": [], "not-needed": []}
    for position, block in enumerate(blocks):
        needed = name in needed_by[block.kind]
        style = "recompute" if name in block.recomputed else "kept" if needed else "not-needed"
        cells[style].append(box(_LEFT + position * width, y + 1, width - gap, _ROW - 2))
    for style, drawn in cells.items():
        drawing.path("".join(drawn), style)


def _stage_marks(
    drawing: Drawing, stages: list[Stage], blocks: list[Column], width: float, bottom: float
) -> None:
    """A name over every stage and a line between stages."""
    start = 0
    for position, stage in enumerate(stages):
        count = sum(block.stage == position for block in blocks)
        left, right = _LEFT + start * width, _LEFT + (start + count) * width
        if position:
            drawing.line(left - 0.5, _TOP - 22, left - 0.5, bottom, "axis")
        name = f"stage {stage.index}" if stage.chunk is None else f"{stage.index}·{stage.chunk}"
        if right - left >= 44:
            drawing.text((left + right) / 2, _TOP - 24, name, "middle small")
            drawing.text((left + right) / 2, _TOP - 9, f"{count} blocks", "middle small muted")
        elif right - left >= 16:
            drawing.text((left + right) / 2, _TOP - 9, str(stage.index), "middle small")
        start += count
