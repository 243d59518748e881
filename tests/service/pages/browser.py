"""A headless Chromium that holds a page to its promises: no error, no other host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """Where Chromium is; Debian's package ``chromium`` is what the tests are run with."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert found, "install chromium, or name it in the variable CHROMIUM"
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a fresh profile."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield launched
        finally:
            launched.close()


@dataclass
class Watched:
    """A page, and what it did that it must not."""

    page: Page
    origin: str
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def go(self, address: str) -> None:
        """Open an address of the service."""
        self.page.goto(self.origin + address, wait_until="load")


@contextmanager
def watched(browser: Browser, origin: str, **options: Any) -> Iterator[Watched]:
    """A page whose errors and foreign requests fail the test that used it."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(180_000)
    seen = Watched(page, origin)

    def note_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            seen.errors.append(message.text)

    page.on("console", note_console)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((origin + "/", "data:", "blob:" + origin))
            else seen.strangers.append(request.url)
        ),
    )
    yield seen
    context.close()
    assert seen.errors == []
    assert seen.strangers == []
