"""Slurm's host lists."""

from __future__ import annotations

import pytest

from solver.cluster.readers.host_list import hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("gpu[001-003,7]", ["gpu001", "gpu002", "gpu003", "gpu7"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[9-11]-ib", ["n9-ib", "n10-ib", "n11-ib"]),
    ],
)
def test_a_list_stands_for_these_names(text: str, names: list[str]) -> None:
    assert hosts(text) == names


@pytest.mark.parametrize(
    "text", ["", "a,,b", "a[", "a]", "a[[1]]", "a[]", "a[3-1]", "a[x]", "a[0-99999999]"]
)
def test_a_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        hosts(text)
