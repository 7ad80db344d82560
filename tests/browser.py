"""A real browser for tests: Chromium without a screen, by the W3C WebDriver protocol."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from services import missing
from signoff.broker.embedded import free_port

_PATIENCE: Final = 60.0
_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
"""The name under which an element comes (WebDriver, section 12)."""


@dataclass(frozen=True, slots=True)
class Browser:
    """One window.

    Attributes:
        http: The session of the driver.
    """

    http: httpx.Client

    def _do(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def open(self, url: str) -> None:
        """Go to a page, and wait until it has loaded."""
        self._do("POST", "/url", {"url": url})

    def script(self, text: str, *arguments: object) -> Any:
        """Run JavaScript in the page and return its value."""
        return self._do("POST", "/execute/sync", {"script": text, "args": list(arguments)})

    def find(self, selector: str, text: str = "") -> str:
        """Wait for an element that is shown, by CSS and by what it says, and return its id.

        Pages say by no event that they have drawn something, so it is looked for again and again.
        """
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if found := self.look(selector, text):
                return found
            time.sleep(0.05)
        shown = self.script("return document.body.innerText")
        raise AssertionError(f"There is no {selector} that says {text!r}. There is: {shown}")

    def look(self, selector: str, text: str = "") -> str:
        """Return the id of such an element, "" where there is none now."""
        element = self.script(
            "return [...document.querySelectorAll(arguments[0])].filter("
            "e => e.checkVisibility() && (e.innerText || '').includes(arguments[1])).pop() || null",
            selector,
            text,
        )
        return str(element[_ELEMENT]) if element else ""

    def click(self, selector: str, text: str = "") -> None:
        """Wait for an element, and click it; what covers it for a moment is waited for."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                self._do("POST", f"/element/{self.find(selector, text)}/click", {})
            except AssertionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return

    def write(self, selector: str, text: str) -> None:
        """Wait for a field, and type into it; U+E007 is the enter key."""
        self._do("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def errors(self) -> list[str]:
        """Return what the browser has complained of since it was last asked."""
        entries = self._do("POST", "/se/log", {"type": "browser"})
        return [str(one["message"]) for one in entries if one["level"] == "SEVERE"]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium, and end it with all that it has started."""
    driver = shutil.which("chromedriver") or missing(
        "chromedriver", "apt-get install chromium-driver"
    )
    chromium = shutil.which("chromium") or missing("Chromium", "apt-get install chromium")
    port = free_port()
    options = {
        "binary": chromium,
        "args": [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--window-size=1400,1000",
            f"--user-data-dir={folder / 'profile'}",
        ],
    }
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen([driver, f"--port={port}"], stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as http:
            _wait(http, process)
            body = {"capabilities": {"alwaysMatch": wanted}}
            answer = http.post("/session", json=body)
            assert answer.status_code == 200, answer.text
            session = f"http://127.0.0.1:{port}/session/{answer.json()['value']['sessionId']}"
            with httpx.Client(base_url=session, timeout=120) as window:
                yield Browser(window)
                window.delete("")
    finally:
        process.terminate()
        process.wait()


def _wait(http: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            if http.get("/status").json()["value"]["ready"]:
                return
        time.sleep(0.05)
    raise AssertionError("The driver of Chromium did not start.")
