"""Modules of a framework imported alone, where its packages want an accelerator's libraries.

The files are the framework's own; only what their packages would import beside them is left out or
stood for.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import pytest


def folder_of(package: str) -> Path:
    """Where a package lies; the test is left out where it is not installed."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"needs {package}: make frameworks")
    return Path(next(iter(spec.submodule_search_locations)))


@contextmanager
def modules(
    package: str, names: Iterable[str], absent: Iterable[str]
) -> Iterator[list[ModuleType]]:
    """Modules of a package, imported without running its ``__init__`` files.

    Args:
        package: The framework's.
        names: Modules within it, dotted.
        absent: Names of modules that are stood for by objects without behaviour.
    """
    before = dict(sys.modules)
    root = folder_of(package)
    try:
        for name in absent:
            sys.modules[name] = MagicMock(name=name)
        for name in names:
            parts = name.split(".")[:-1]
            for depth in range(len(parts) + 1):
                bare = ModuleType(".".join([package, *parts[:depth]]))
                bare.__path__ = [str(root.joinpath(*parts[:depth]))]
                bare.__spec__ = ModuleSpec(bare.__name__, None, is_package=True)
                bare.__spec__.submodule_search_locations = bare.__path__
                sys.modules.setdefault(bare.__name__, bare)
        yield [importlib.import_module(f"{package}.{name}") for name in names]
    finally:
        for name in set(sys.modules) - set(before):
            del sys.modules[name]
        sys.modules.update(before)
