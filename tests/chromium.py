"""A headless Chromium for tests, driven over its DevTools protocol as a person uses it."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import websockets.asyncio.client

from services import missing

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--window-size=1400,1000",
    "--remote-debugging-port=0",
)
_PATIENCE = 300.0
_KEYS = {"Tab": 9, "Enter": 13, " ": 32}
_TOLD = (
    "Log.entryAdded",
    "Runtime.exceptionThrown",
    "Network.requestWillBeSent",
    "Network.loadingFinished",
    "Page.javascriptDialogOpening",
    "ServiceWorker.workerRegistrationUpdated",
)
_FIND = """
[...document.querySelectorAll({selector})].filter(
  e => e.checkVisibility() && (e.innerText || '').includes({text})).pop()"""
_PLACE = """
(() => {{
  const element = {find};
  if (!element) return null;
  element.scrollIntoView({{block: "center", inline: "center", behavior: "instant"}});
  const box = element.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  return element.contains(document.elementFromPoint(x, y)) ? {{x, y}} : null;
}})()"""
"""The middle of an element, or nothing while another element covers it."""


class Tab:
    """One tab.

    Attributes:
        told: The browser's events about requests, errors and dialogs since `listen`.
    """

    def __init__(self, socket: websockets.asyncio.client.ClientConnection) -> None:
        self._socket = socket
        self._sent = 0
        self._loads = 0
        self._loaded_by = set[str]()
        self.told: list[dict[str, Any]] = []

    async def do(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; count the page loads meanwhile."""
        self._sent += 1
        mine = self._sent
        await self._socket.send(json.dumps({"id": mine, "method": method, "params": params}))
        while True:
            message = await self._message()
            if message.get("id") == mine:
                assert "error" not in message, f"{method}: {message}"
                return dict(message["result"])

    async def listen(self) -> None:
        """Receive an event for each request, each error, and each violation of a content policy.

        Chromium logs the violations, as it does for users who open the developer tools.
        """
        for domain in ("Log", "Runtime", "Network"):
            await self.do(f"{domain}.enable")

    def news(self, method: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [one["params"] for one in self.told if one["method"] == method]

    async def open(self, url: str) -> None:
        """Open an address, and wait until the page has loaded."""
        # The page before may finish only now, so its event does not count.
        loader = (await self.do("Page.navigate", url=url))["loaderId"]
        while loader not in self._loaded_by:
            await self._message()

    async def look(self, expression: str) -> Any:
        """Return the value of an expression on the page, or of the promise that it returns.

        If the page's own scripts are off, they stay off; then promises do not work either.
        """
        result = await self.do(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def text(self) -> str:
        """Return the text of the page."""
        return str(await self.look("document.body.innerText"))

    async def find(self, selector: str, text: str = "") -> None:
        """Wait for a visible element with this CSS selector and text."""
        await self._wait_for(f"!!{_find(selector, text)}", f"{selector} that says {text!r}")

    async def focus_on(self, element: str) -> None:
        """Wait until the element with an id has the focus: `autofocus` works after loading."""
        has_it = f"document.activeElement?.id === {json.dumps(element)}"
        await self._wait_for(has_it, f"focus on #{element}")

    async def click(self, selector: str, text: str = "") -> None:
        """Wait for a visible element that nothing covers, and click it."""
        place = _PLACE.format(find=_find(selector, text))
        middle, before = None, None
        # While a page loads, its script shows further parts and moves the others.
        while middle is None or middle != before:
            what = f"{selector} that says {text!r} and can be clicked"
            middle, before = await self._wait_for(place, what), middle
        mouse = {**middle, "button": "left", "clickCount": 1}
        await self.do("Input.dispatchMouseEvent", type="mousePressed", **mouse)
        await self.do("Input.dispatchMouseEvent", type="mouseReleased", **mouse)

    async def write(self, selector: str, text: str) -> None:
        """Wait for a field, click it, and type into it.

        If the page redraws meanwhile and loses the text, type it again.
        """
        has_it = f"(document.activeElement?.value ?? '').includes({json.dumps(text)})"
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            await self.click(selector)
            await self.look("document.activeElement?.select?.()")
            await self.type(text)
            await asyncio.sleep(0.1)
            if await self.look(has_it):
                return
        raise AssertionError(f"{selector} does not keep {text!r}. There is: {await self.text()}")

    async def tick(self, selector: str) -> None:
        """Wait for a checkbox, and tick it.

        If the page redraws it meanwhile without the tick, tick it again.
        """
        is_ticked = f"!!document.querySelector({json.dumps(selector)})?.checked"
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if not await self.look(is_ticked):
                await self.click(selector)
            await asyncio.sleep(0.1)
            if await self.look(is_ticked):
                return
        raise AssertionError(f"{selector} does not stay ticked. There is: {await self.text()}")

    async def received(self, path: str) -> None:
        """Wait until the page has received a whole response from a path that ends like this."""
        entries = "performance.getEntriesByType('resource')"
        has_it = f"{entries}.some(one => new URL(one.name).pathname.endsWith({json.dumps(path)}))"
        await self._wait_for(has_it, f"response from {path}")

    async def tab_to(self, selector: str, *, most: int = 40) -> None:
        """Press Tab until the wanted element has the focus."""
        for _ in range(most):
            await self.key("Tab")
            if await self.look(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"{selector} is not reached by {most} tabs")

    async def type(self, text: str) -> None:
        """Type into the focused element."""
        await self.do("Input.insertText", text=text)

    async def enter(self) -> None:
        """Press Enter, and wait for the next page."""
        before = self._loads
        await self.key("Enter")
        await self._loaded(before)

    async def key(self, name: str) -> None:
        """Press a key."""
        code = "Space" if name == " " else name
        about = {
            "key": name,
            "code": code,
            "windowsVirtualKeyCode": _KEYS.get(name, ord(name[-1].upper())),
        }
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else None)
        more = {"text": text} if text else {}
        await self.do("Input.dispatchKeyEvent", type="keyDown", **about, **more)
        await self.do("Input.dispatchKeyEvent", type="keyUp", **about)

    async def shape(self, width: int, height: int, *, dark: bool) -> None:
        """Set the size of the screen and the colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.do("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.do("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, *, most: int = 4_000) -> bytes:
        """Return a WebP picture of the page, at most `most` pixels high."""
        size = (await self.do("Page.getLayoutMetrics"))["cssContentSize"]
        part = {"x": 0, "y": 0, "width": size["width"], "scale": 1}
        shot = await self.do(
            "Page.captureScreenshot",
            format="webp",
            quality=70,
            captureBeyondViewport=True,
            clip={**part, "height": min(size["height"], most)},
        )
        return base64.b64decode(shot["data"])

    async def _wait_for(self, expression: str, what: str) -> Any:
        # No event announces that a page has drawn something, so look again and again.
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if found := await self.look(expression):
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"There is no {what}. There is: {await self.text()}")

    async def _loaded(self, before: int) -> None:
        while self._loads == before:
            await self._message()

    async def _message(self) -> dict[str, Any]:
        async with asyncio.timeout(_PATIENCE):
            message = json.loads(await self._socket.recv())
        method = message.get("method", "")
        self._loads += method == "Page.loadEventFired"
        if method == "Page.lifecycleEvent" and message["params"]["name"] == "load":
            self._loaded_by.add(message["params"]["loaderId"])
        if method in _TOLD:
            self.told.append(message)
        return dict(message)


def _find(selector: str, text: str) -> str:
    return _FIND.format(selector=json.dumps(selector), text=json.dumps(text))


@asynccontextmanager
async def chromium(folder: Path, *, scripts: bool) -> AsyncIterator[Tab]:
    """Start a browser and yield a tab of it; `scripts` says if its pages may run scripts."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        missing("chromium", "apt-get install chromium")
    with (folder / "chromium.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program,
            *_FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            "about:blank",
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        file = folder / "profile" / "DevToolsActivePort"
        port = await asyncio.to_thread(_port, file, process)
        async with httpx.AsyncClient(timeout=60) as http:
            pages = (await http.get(f"http://127.0.0.1:{port}/json/list")).json()
        url = next(one["webSocketDebuggerUrl"] for one in pages if one["type"] == "page")
        async with websockets.asyncio.client.connect(url, max_size=1 << 26, proxy=None) as socket:
            tab = Tab(socket)
            await tab.do("Page.enable")
            await tab.do("Page.setLifecycleEventsEnabled", enabled=True)
            await tab.do("Emulation.setScriptExecutionDisabled", value=not scripts)
            yield tab
    finally:
        if process.returncode is None:
            # The browser leads a process group of its own: its helpers end with it.
            process.send_signal(signal.SIGTERM)
        await process.wait()


def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """Wait for the browser's port, which it only writes into this file."""
    deadline = time.monotonic() + _PATIENCE
    while process.returncode is None and time.monotonic() < deadline:
        text = file.read_text() if file.exists() else ""
        if text.count("\n"):
            return int(text.splitlines()[0])
        time.sleep(0.05)
    raise AssertionError((file.parents[1] / "chromium.log").read_text()[-2000:])
