"""Keeps what the pages quote true: runs every command of a ``console`` block and compares.

    python docs/quotes.py            rewrite every quote that differs from what is so now
    python docs/quotes.py --check    say which are no longer true, small differences aside

A block is run as one shell session in the root of the project. Commands that name
``http://127.0.0.1:8000`` talk to a service that is started for the purpose, with a new database.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SERVICE = "127.0.0.1:8000"
COLUMNS = "96"
FIGURES_AGREE = 0.02
"""Relative difference up to which a quoted iteration time counts as the present one."""

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "\x1e"
_VERDICT = re.compile(r"One iteration takes ([\d.,]+) (µs|ms|s|h)")
_DATE = re.compile(r"^date: .*$", re.MULTILINE | re.IGNORECASE)
_ID = re.compile(r"\b[0-9a-f]{12,}\b")
_MEASURED = re.compile(r"\d*\.\d+(?:e[+-]?\d+)?|\d{4,}|\d+(?:,\d+)+")


@dataclass(frozen=True)
class Quote:
    """A block of a page: the session as it stands there."""

    page: Path
    text: str

    @property
    def commands(self) -> list[str]:
        """Its commands, continued lines included."""
        found: list[str] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append(line[2:])
            elif found and found[-1].endswith("\\"):
                found[-1] += "\n" + line
        return found


def pages() -> list[Path]:
    """Every page of the documentation."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]


def quotes() -> list[Quote]:
    """Every quote of every page."""
    return [
        Quote(page, match[1])
        for page in pages()
        if page.exists()
        for match in _BLOCK.finditer(page.read_text())
    ]


def session(commands: list[str], port: int | None) -> str:
    """What a shell answers to the commands, with the commands."""
    script = []
    for command in commands:
        here = command.replace(SERVICE, f"127.0.0.1:{port}") if port else command
        script.append(f"__status=$?; printf '{_MARK}'; (exit $__status)\n{here}")
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": COLUMNS,
            "STAGECUT_DATABASE_URL": f"sqlite:///{folder}/plans.db",
        }
        done = subprocess.run(
            ["bash", "-c", "\n".join(script)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    answers = done.stdout.split(_MARK)[1:]
    text = ""
    for command, answer in zip(commands, answers, strict=True):
        text += f"$ {command}\n"
        text += "".join(f"{line.rstrip()}\n" for line in answer.splitlines())
    return text.replace(f"127.0.0.1:{port}", SERVICE) if port else text


def fresh(quote: Quote) -> str:
    """The block as it would be now."""
    if SERVICE not in quote.text:
        return session(quote.commands, None)
    with _service() as port:
        return session(quote.commands, port)


def agree(quoted: str, now: str) -> bool:
    """Whether a quote still says what the command does.

    Words and small whole numbers must be the same, other figures need not. Of a plan or evaluation
    the layout must be the same and the iteration time within ``FIGURES_AGREE``; the rest is not
    looked at. What the scripts of this folder print is the same everywhere and compared to the
    letter.
    """
    if quoted.startswith("$ python docs/"):
        return quoted == now
    then_found, now_found = _VERDICT.search(quoted), _VERDICT.search(now)
    if then_found and now_found:
        then_said, now_said = (float(m[1].replace(",", "")) for m in (then_found, now_found))
        same = abs(then_said - now_said) <= FIGURES_AGREE * now_said
        above = quoted[: then_found.start()], now[: now_found.start()]
        return same and then_found[2] == now_found[2] and _words(above[0]) == _words(above[1])
    return _words(quoted) == _words(now)


def _words(text: str) -> list[str]:
    return _MEASURED.sub("0", _lasting(text)).split()


def _lasting(text: str) -> str:
    """The text without dates and ids."""
    return _ID.sub("ID", _DATE.sub("", text))


@contextlib.contextmanager
def _service() -> Iterator[int]:
    """A service with a new database, up and ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "STAGECUT_DATABASE_URL": f"sqlite:///{folder}/plans.db"}
        command = [str(Path(sys.executable).parent / "stagecut"), "serve", "--port", str(port)]
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL
        ) as service:
            try:
                _wait(f"http://127.0.0.1:{port}/healthz")
                yield port
            finally:
                service.terminate()


def _wait(url: str, seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def main(check: bool) -> int:
    """Rewrite, or with ``check`` name, the quotes that are no longer true."""
    stale = 0
    for quote in quotes():
        now = fresh(quote)
        if agree(quote.text, now) if check else _lasting(quote.text) == _lasting(now):
            continue
        stale += 1
        print(f"{quote.page.relative_to(ROOT)}: $ {quote.commands[0]}")
        if "Traceback (most recent call last)" in now:
            print(now, file=sys.stderr)
        elif not check:
            quote.page.write_text(quote.page.read_text().replace(quote.text, now))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
