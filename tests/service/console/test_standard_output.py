"""What libraries print while a plan is made never mixes with the answer."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import ctypes, os
from service.console.standard_output import kept_for_answers
print("before")
with kept_for_answers():
    os.write(1, b"a library, at once\\n")
    ctypes.CDLL(None).printf(b"a library, held back\\n")
print("after")
"""


def test_libraries_print_to_standard_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "before\nafter\n"
    assert "a library, at once" in done.stderr
    assert "a library, held back" in done.stderr
