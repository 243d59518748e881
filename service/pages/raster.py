"""A picture as PNG, without a browser.

The font is our own, so that the picture is the same on every machine, also on one without fonts.
"""

from __future__ import annotations

from importlib.resources import as_file, files

SCALE = 2.0
"""Pixels per unit of length: sharp on dense screens and in print."""

_FONTS = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
_FAMILY = "DejaVu Sans"


def png(svg: str) -> bytes:
    """An SVG file as pixels. Signs that our font lacks are looked for on the machine."""
    import resvg_py

    with as_file(files("service.pages") / "fonts") as folder:
        return resvg_py.svg_to_bytes(
            svg_string=svg,
            zoom=SCALE,
            font_files=[str(folder / name) for name in _FONTS],
            skip_system_fonts=all(ord(sign) < 0x250 or sign in "µ×−…≥" for sign in svg),
            font_family=_FAMILY,
            sans_serif_family=_FAMILY,
        )
