"""A ``map`` over processes that inherit what they work on, so that none of it need be pickled."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import get_context
from typing import Any

_work: list[tuple[Callable[..., Any], Sequence[Any]]] = []


def forked(function: Callable[..., Any], *columns: Iterable[Any]) -> list[Any]:
    """``map``, each call in one of as many forked processes as there are processors."""
    _work[:] = [(function, arguments) for arguments in zip(*columns, strict=True)]
    with get_context("fork").Pool(os.cpu_count()) as pool:
        return pool.map(_call, range(len(_work)), chunksize=1)


def _call(number: int) -> Any:
    function, arguments = _work[number]
    return function(*arguments)
