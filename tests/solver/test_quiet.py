"""What C code prints stays out of what Python prints."""

from __future__ import annotations

import ctypes

import pytest

from solver.quiet import quiet


def test_only_what_is_printed_outside_is_seen(capfd: pytest.CaptureFixture[str]) -> None:
    printf = ctypes.CDLL(None).printf
    print("before", flush=True)
    with quiet():
        printf(b"inside\n")
    print("after", flush=True)
    assert capfd.readouterr().out.split() == ["before", "after"]


def test_output_comes_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), quiet():
        1 / 0  # noqa: B018
    print("after", flush=True)
    assert capfd.readouterr().out.split() == ["after"]
