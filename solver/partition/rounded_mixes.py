"""Mixes of a device from parts of blocks: rounded down, then filled up while the memory lasts.

The relaxation (``relaxed_splits.py``) mixes the choices of a kind's hull in any parts. As each step
along a hull keeps more, taking every step for no more whole blocks than parts of blocks keeps no
more bytes. What that leaves free goes to the steps that lost most by it first, then to any others.
"""

from __future__ import annotations

from solver.partition.device_menu import DeviceMenu
from solver.partition.menu import Mix

Parts = list[list[tuple[int, int, int]]]

NEARLY = 1e-6
"""Parts of a block that are rounding of the solver."""

Steps = dict[tuple[int, int, int], float]
"""(chunk, kind, number of the step along the kind's hull): blocks that take it."""


def rounded_mixes(
    menu: DeviceMenu, hulls: list[list[int]], shares: list[dict[int, list[float]]], states: float
) -> list[Mix] | None:
    """One mix per chunk that the device can hold, or None if rounding found none.

    Args:
        menu: The device.
        hulls: The hull choices of every kind, by ascending kept bytes.
        shares: Per chunk and kind, how many blocks take each of them; they add up to whole numbers.
        states: State bytes of all chunks.
    """
    steps: Steps = {}
    for chunk, kinds in enumerate(shares):
        for kind, blocks in kinds.items():
            above = 0.0
            for number in range(len(blocks) - 1, -1, -1):
                above += blocks[number]
                steps[chunk, kind, number] = above
    whole = {step: int(blocks + NEARLY) for step, blocks in steps.items()}
    for chunk, kinds in enumerate(shares):
        for kind, blocks in kinds.items():
            whole[chunk, kind, 0] = round(sum(blocks))
    if not menu.fits(_parts(whole, hulls, len(shares)), states):
        return None
    order = sorted(steps, key=lambda step: (whole[step] - steps[step], step))
    for step in order:
        chunk, kind, number = step
        while number and whole[step] < whole[chunk, kind, number - 1]:
            whole[step] += 1
            if not menu.fits(_parts(whole, hulls, len(shares)), states):
                whole[step] -= 1
                break
    return menu.mixes_of(_parts(whole, hulls, len(shares)))


def _parts(whole: dict[tuple[int, int, int], int], hulls: list[list[int]], chunks: int) -> Parts:
    """Per chunk (kind, choice, count)."""
    made: Parts = [[] for _ in range(chunks)]
    for (chunk, kind, number), blocks in sorted(whole.items()):
        count = blocks - whole.get((chunk, kind, number + 1), 0)
        if count:
            made[chunk].append((kind, hulls[kind][number], count))
    return made
