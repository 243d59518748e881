"""The matrix of ``nvidia-smi topo -m``: the inside of one node.

``NV#`` is a bond of # NVLinks; PIX, PXB, PHB, NODE and SYS go over PCIe (its own legend).
"""

from __future__ import annotations

import re

from solver.cluster.readers.broken import broken
from solver.cluster.topology import Node, Topology

FORMAT = "nvidia-smi-topo"

_LINKS = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS")
_ROW = re.compile(r"^\s*((?:GPU|NIC|mlx)\w*)\s+(.*)$")


def reads(text: str) -> bool:
    """Whether the text looks like this format."""
    return re.match(r"\s*GPU0\b", text) is not None


def read(text: str) -> Topology:
    """One node with as many devices as the matrix has, and who is joined by NVLink.

    Raises:
        BrokenFile: A row is short, holds an unknown link, or the matrix is not symmetric.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if re.match(r"\s*GPU0\b", line)), None)
    if start is None:
        raise broken("There is no heading that begins with GPU0.", 1)
    columns = [word for word in lines[start].split() if re.fullmatch(r"(?:GPU|NIC)\d+", word)]
    gpus = sum(word.startswith("GPU") for word in columns)
    rows: list[list[str]] = []
    for number, line in enumerate(lines[start + 1 :], start + 2):
        match = _ROW.match(line)
        if match is None or not match[1].startswith("GPU"):
            continue
        cells = match[2].split()[: len(columns)]
        if len(cells) < len(columns):
            raise broken(f"The row {match[1]} has {len(cells)} of {len(columns)} links.", number)
        for cell in cells:
            if not _LINKS.fullmatch(cell):
                raise broken(f"{cell[:20]!r} in the row {match[1]} is no link.", number)
        if len(rows) == len(columns):
            raise broken(f"The row {match[1]} has no column.", number)
        if match[1] != columns[len(rows)]:
            raise broken(f"The row {match[1]} stands where {columns[len(rows)]} should.", number)
        rows.append(cells[:gpus])
    if len(rows) != gpus:
        raise broken(f"The matrix has {gpus} columns but {len(rows)} rows of GPUs.", start + 1)
    for one in range(gpus):
        for other in range(one):
            if rows[one][other] != rows[other][one]:
                raise broken(f"GPU{one} and GPU{other} disagree about their link.", start + 2 + one)
    groups = _groups(rows)
    bonds = sorted({cell for row in rows for cell in row if cell.startswith("NV")})
    note = f"NVLink: {', '.join(bonds)}." if bonds else "No NVLink inside the node."
    return Topology(
        nodes=(Node("node", devices=gpus),),
        formats=(FORMAT,),
        link_groups=groups,
        of_one_node=True,
        notes=(note,),
    )


def _groups(rows: list[list[str]]) -> tuple[tuple[int, ...], ...]:
    """Devices that NVLink joins, directly or through others."""
    left, groups = set(range(len(rows))), []
    while left:
        group, waiting = set(), [min(left)]
        while waiting:
            one = waiting.pop()
            if one in group:
                continue
            group.add(one)
            waiting.extend(other for other, cell in enumerate(rows[one]) if cell.startswith("NV"))
        groups.append(tuple(sorted(group)))
        left -= group
    return tuple(groups)
