"""Colours that stand side by side are told apart, by colour-blind readers too.

Colours are seen as by Machado, Oliveira and Fernandes, "A Physiologically-based Model for
Simulation of Color Vision Deficiency" (2009), severity 1.0, in linear RGB; differences are
Euclidean in CIELAB (D65).
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from service.pages.pictures.breakdown import LINES
from service.pages.pictures.memory import PARTS
from service.pages.stylesheet import sheet_text

EYES = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
) / np.array([[0.9505], [1.0], [1.089]])

TIMELINE = ("forward", "backward", "weight", "recompute", "communication", "optimizer", "stall")
GRID = ("kept", "recompute", "offloaded", "not-needed")
CURVES = ("forward", "backward", "recompute", "communication")
APART = 14.0


def schemes() -> list[dict[str, str]]:
    """The variables of the light and of the dark scheme."""
    sheet = sheet_text("pictures.css")
    blocks = re.findall(r"\{([^{}]*--paper: [^{}]*)\}", sheet)
    return [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def seen(colour: str, eye: NDArray[np.float64]) -> NDArray[np.float64]:
    """The colour in CIELAB as the eye sees it."""
    coded = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(eye @ linear, 0.0, 1.0)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: str, other: str, eye: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(seen(one, eye) - seen(other, eye)))


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "dark, chosen"])
@pytest.mark.parametrize("names", [TIMELINE, CURVES, GRID], ids=["timeline", "curves", "grid"])
def test_colours_of_a_picture_are_told_apart(eye: str, scheme: int, names: tuple[str, ...]) -> None:
    colours = schemes()[scheme]
    for one, other in itertools.combinations([*names, "paper"], 2):
        if {one, other} not in ({"stall", "paper"}, {"not-needed", "paper"}):
            apart = difference(colours[one], colours[other], EYES[eye])
            assert apart >= APART, (one, other, apart)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "dark, chosen"])
@pytest.mark.parametrize("parts", [PARTS, LINES], ids=["memory", "breakdown"])
def test_neighbours_in_a_bar_are_told_apart(
    eye: str, scheme: int, parts: tuple[tuple[str, str, str], ...]
) -> None:
    colours = schemes()[scheme] | {"compute": schemes()[scheme]["forward"]}
    for (_, one, _), (_, other, _) in itertools.pairwise(parts):
        apart = difference(colours[one], colours[other], EYES[eye])
        assert apart >= APART, (one, other, apart)


def test_both_ways_to_the_dark_scheme_lead_to_the_same_colours() -> None:
    light, dark, chosen = schemes()
    assert dark == chosen
    assert dark.keys() == light.keys()


def test_the_model_of_an_eye_can_fail() -> None:
    """Red and green of equal weight are one colour to a deuteranope."""
    assert difference("#a05020", "#607020", EYES["deuteranopia"]) < APART
    assert difference("#a05020", "#607020", EYES["usual"]) > 3 * APART
