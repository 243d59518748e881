"""Topology files for tests."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def text(name: str) -> str:
    """The text of a file of this folder."""
    return (FOLDER / name).read_text(encoding="utf-8")
