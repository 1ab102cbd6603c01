"""The dashboard as it is served, and a real browser that looks at it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

from dashboard.launch import start

CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
WAIT_MS = 60_000
"""How long a page may take on a loaded machine before a test gives up."""
PROBES = ("/_stcore/health", "/_stcore/host-config")
"""Streamlit itself asks for these below a page's path, and gets a 404 each."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until_up(child: subprocess.Popen[bytes], port: int, *, wait_s: float = 90.0) -> str:
    """The address of a server that is starting, once it answers."""
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + wait_s
    while True:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return address
        except (URLError, OSError):
            if child.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@contextlib.contextmanager
def served(store: Path) -> Iterator[str]:
    """Serves `store` on a free port; gives the address without a slash at its end."""
    port = free_port()
    child = start(store, port=port)
    try:
        yield wait_until_up(child, port)
    finally:
        child.terminate()
        child.wait(timeout=20)


def chromium_path() -> str | None:
    """A Chromium of the system, else None: playwright's own."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium that keeps from looking outside."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium_path(), args=list(CHROMIUM_FLAGS))
        try:
            yield made
        finally:
            made.close()


@functools.cache
def _axe() -> str:
    """The script of axe-core, from the package that carries it: nothing is fetched."""
    spec = importlib.util.find_spec("axe_playwright_python")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")


class Visit:
    """A tab that remembers what it asked for and what went wrong in it."""

    def __init__(
        self,
        browser: Any,
        address: str,
        *,
        width: int = 1440,
        dark: bool = False,
        phone: bool = False,
        context: Any = None,
    ) -> None:
        options: dict[str, Any] = {"viewport": {"width": width, "height": 1000}}
        if phone:
            options |= {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
            options["user_agent"] = (
                "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36"
            )
        self._lent = context is not None
        self.context = context or browser.new_context(color_scheme="dark" if dark else "light", **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.address = address
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._asked)
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _heard(self, message: Any) -> None:
        if message.type != "error":
            return
        where = (message.location or {}).get("url", "")
        if "404" in message.text and where.endswith(PROBES):
            return
        self.errors.append(f"{message.text} {where}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, self.address.replace("http", "ws"), "data:", "blob:")):
            self.outside.append(request.url)

    def go(self, path: str) -> Any:
        """Opens a page and waits until it is drawn."""
        self.page.goto(f"{self.address}/{path}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Waits until the headline is there, the script has ended and nothing is stale."""
        self.page.wait_for_selector("h1.ko-h1", timeout=WAIT_MS)
        self.page.wait_for_function(
            "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
            " && !document.querySelector('[data-stale=true]')"
            " && !document.querySelector('[data-testid=stSkeleton]')",
            timeout=WAIT_MS,
        )

    def says(self, words: str, within: str = ".stMainBlockContainer") -> None:
        """Asserts that an element `within` comes to say `words`: the page draws after its script has ended."""
        from playwright.sync_api import TimeoutError as TookTooLong

        try:
            self.page.wait_for_function(
                "([within, words]) => [...document.querySelectorAll(within)]"
                ".some(e => (e.innerText ?? e.textContent).includes(words))",
                arg=[within, words],
                timeout=WAIT_MS,
            )
        except TookTooLong:
            found = [element.text_content() for element in self.page.locator(within).all()]
            raise AssertionError(f"{words!r} is not in {found}") from None

    def carries(self, words: str) -> None:
        """Asserts that the document comes to hold `words`, in a text or in an attribute."""
        self.page.wait_for_function(
            "words => document.documentElement.outerHTML"
            ".replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&').includes(words)",
            arg=words,
            timeout=WAIT_MS,
        )

    def counts(self, selector: str, count: int) -> None:
        """Asserts that the page comes to have `count` elements."""
        from playwright.sync_api import expect

        expect(self.page.locator(selector)).to_have_count(count, timeout=WAIT_MS)

    def barriers(self) -> list[str]:
        """What axe-core finds serious or worse on the page, a line each: rule, element."""
        self.page.evaluate(_axe())
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations', 'passes']})")
        assert found["passes"], "axe looked at nothing"
        return [
            f"{violation['id']}: {node['html'][:200]}"
            for violation in found["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]

    def close(self) -> None:
        """Closes the tab, and its context where that is its own."""
        self.page.close()
        if not self._lent:
            self.context.close()
