"""The version of the installed service."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("stagecut")
