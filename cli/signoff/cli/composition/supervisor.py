"""Runs several processes as one: it joins their output, and if one ends, it stops all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from signoff.core.base.errors import SignoffError

_TETHER: Final = Path(__file__).with_name("tether.py")
_TAIL: Final = 20
_LONGEST_LINE: Final = 1 << 20
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")

Echo = Callable[[str, str], None]
"""Takes the name of a process and a line of its output."""


class ChildDied(SignoffError):
    """A process that the others need has ended.

    Args:
        name: Its name.
        code: Its exit code; a negative one is the number of the signal that ended it.
        tail: Its last lines.

    Attributes:
        what: A sentence that says which process has ended, and how.
    """

    def __init__(self, name: str, code: int, tail: Sequence[str]) -> None:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        last = "".join(f"\n  {line}" for line in tail)
        self.what = f"{name} {how}, so everything was stopped."
        super().__init__(self.what + (f" Its last lines:{last}" if last else " It wrote nothing."))
        self.name = name
        self.code = code
        self.tail = tuple(tail)


class NotReady(SignoffError):
    """A process is running, but has not reported in time that it is ready.

    `what` names the process; the tails are the last lines of all that were expected to be ready.
    """

    def __init__(self, what: str, tails: Sequence[str]) -> None:
        super().__init__(what + "".join(f"\n  {line}" for line in tails))
        self.what = what


class Child:
    """One process of a supervisor.

    Attributes:
        name: Its name in output and errors.
        tail: Its last lines.
        ready: Set once it has reported that it is ready.
        report: The fields of that report, such as ``port``.
        ended: Set once it has ended and all its output was read.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, echo: Echo | None) -> None:
        self.name = name
        self.tail: deque[str] = deque(maxlen=_TAIL)
        self.ready = asyncio.Event()
        self.report: dict[str, Any] = {}
        self.ended = asyncio.Event()
        self._process = process
        self._echo = echo
        self._reader = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.returncode

    def signal(self, number: int) -> None:
        """Send a signal to it and to all that it has started; do nothing if it has ended."""
        if not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    async def _read(self) -> None:
        stream = self._process.stdout
        try:
            while stream is not None and (raw := await _line(stream)):
                line = raw.decode(errors="replace").rstrip("\r\n")
                self.tail.append(line)
                if not self.ready.is_set() and (event := ready_event(line)) is not None:
                    self.report = event
                    self.ready.set()
                if self._echo is not None:
                    self._echo(self.name, line)
            await self._process.wait()
        finally:
            self.ended.set()


class Supervisor:
    """Starts processes, notices when one ends, and leaves none behind.

    Use it as an async context manager in the main thread. On exit it stops all children, the last
    started first. Each child has a process group of its own, so that Ctrl-C reaches only this
    process, which then stops them in order. On Linux the kernel kills the children if this process
    is killed.

    Args:
        echo: Called with every line of every child; with None, only the last lines are kept.
        grace: The seconds that a child has to stop before it is killed.
    """

    def __init__(self, *, echo: Echo | None = None, grace: float = 15) -> None:
        self.children: dict[str, Child] = {}
        self._echo = echo
        self._grace = grace

    async def start(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> Child:
        """Start a program with its arguments, and with `env` added to this process's environment.

        The name is unique among those that run.

        Raises:
            OSError: The program cannot be started.
        """
        process = await asyncio.create_subprocess_exec(
            *tether(),
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        child = Child(name, process, self._echo)
        self.children[name] = child
        return child

    async def signoff(
        self, name: str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> Child:
        """Start a `signoff` command with the Python of this process, whatever is on PATH."""
        return await self.start(name, [sys.executable, "-m", "signoff.cli", *arguments], env=env)

    async def ready(self, *names: str, within: float = 60) -> None:
        """Return when these children, or all of them, have reported that they are ready.

        Raises:
            ChildDied: One ended instead.
            NotReady: One did not report it in time.
        """
        chosen = [self.children[name] for name in names or self.children]
        waits = asyncio.create_task(_all_ready(chosen))
        try:
            async with asyncio.timeout(within):
                await self._unless_one_ends(waits)
        except TimeoutError as error:
            late = ", ".join(child.name for child in chosen if not child.ready.is_set())
            tails = [line for child in chosen for line in child.tail]
            raise NotReady(f"{late}: not ready after {within:g} s.", tails) from error

    async def watch(self) -> None:
        """Wait until a child ends, however it ends.

        Raises:
            ChildDied: Always, naming the child and its last lines.
        """
        await self._unless_one_ends(asyncio.get_running_loop().create_future())

    async def stop(self, *names: str) -> None:
        """Stop these children, or all of them, the last started first.

        SIGTERM asks each to finish its work; SIGKILL ends those that take longer than the grace.
        """
        chosen = [self.children[name] for name in names or reversed(list(self.children))]
        for child in chosen:
            child.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._grace):
                for child in chosen:
                    await child.ended.wait()
        except TimeoutError:
            for child in chosen:
                child.signal(signal.SIGKILL)
            for child in chosen:
                await child.ended.wait()
        for child in chosen:
            self.children.pop(child.name, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # A second Ctrl-C while children stop must not leave the rest of them running.
        stopping = asyncio.ensure_future(self.stop())
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            for child in self.children.values():
                child.signal(signal.SIGKILL)
            await stopping
            raise

    async def _unless_one_ends(self, wanted: asyncio.Future[Any]) -> None:
        ends = {asyncio.create_task(one.ended.wait()): one for one in self.children.values()}
        try:
            await asyncio.wait({wanted, *ends}, return_when=asyncio.FIRST_COMPLETED)
            for task, child in ends.items():
                if task.done():
                    raise ChildDied(child.name, child.code or 0, child.tail)
        finally:
            for pending in (wanted, *ends):
                pending.cancel()
            await asyncio.gather(wanted, *ends, return_exceptions=True)


async def _all_ready(children: Sequence[Child]) -> None:
    for child in children:
        await child.ready.wait()


def tether() -> list[str]:
    """Return the prefix of a command that must not outlive this process.

    The kernel kills the command when the thread that has started it ends. So start it from a
    thread that runs at least as long as the command.
    """
    return [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid())]


def ready_event(line: str) -> dict[str, Any] | None:
    """Return the fields of a "ready" event; None for any other line of output.

    The line may be JSON or console text; in console text every value is a string.
    """
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            return event if isinstance(event, dict) and event.get("event") == "ready" else None
    words = _COLOURS.sub("", line).split()
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    return fields if "ready" in words and "kind" in fields else None


async def _line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line, the beginning of one that is too long, or nothing at the end."""
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await stream.read(error.consumed)
