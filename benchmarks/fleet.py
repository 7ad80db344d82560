"""The measured processes: their start, output and stop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

ROOT = Path(__file__).parents[1]
_PATIENCE = 60.0

Hear = Callable[[list[str]], None]
"""Takes the words of an output line."""


class Child:
    """One process of `benchmarks.process`.

    Args:
        process: The asyncio process.
        log: The file of its standard error.
    """

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._seen = psutil.Process(process.pid)
        self._ready = asyncio.Event()
        self.hear: Hear = lambda words: None
        self.reading = asyncio.create_task(self._read())

    @property
    def cpu(self) -> float:
        """The CPU seconds that it has used."""
        times = self._seen.cpu_times()
        return float(times.user + times.system)

    @property
    def complaint(self) -> str:
        """The last line of its standard error."""
        lines = self._log.read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it ended")

    @property
    def whole_cpu(self) -> float:
        """The CPU seconds of the process and all processes that it has started."""
        return sum(self._of_all(lambda one: float(sum(one.cpu_times()[:4]))))

    @property
    def whole_memory(self) -> int:
        """The bytes of memory that only it and its child processes use."""
        return round(sum(self._of_all(lambda one: float(one.memory_full_info().uss))))

    def _of_all(self, read: Callable[[psutil.Process], float]) -> Iterator[float]:
        for one in (self._seen, *self._seen.children(recursive=True)):
            # A process that has ended meanwhile counts with its parent.
            with suppress(psutil.NoSuchProcess):
                yield read(one)

    def say(self, *words: object) -> None:
        """Write a line to its standard input."""
        if self._process.stdin is None:
            raise RuntimeError("It has no standard input.")
        self._process.stdin.write((" ".join(map(str, words)) + "\n").encode())

    async def ready(self) -> None:
        """Wait until it is ready for work.

        Raises:
            RuntimeError: It ended, or was not ready in time.
        """
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait(
            [waiting, self.reading], timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        if not self._ready.is_set():
            waiting.cancel()
            raise RuntimeError(f"It did not start:\n{self._log.read_text()[-2000:]}")

    async def kill(self) -> None:
        """Kill it as a power cut would."""
        self._process.kill()
        await self._process.wait()

    async def stop(self, patience: float) -> None:
        """Stop it, by force after this number of seconds, and wait for its end."""
        if self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(patience):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        self.reading.cancel()

    async def _read(self) -> None:
        if self._process.stdout is None:
            raise RuntimeError("It has no standard output.")
        async for line in self._process.stdout:
            words = line.decode().split()
            if words == ["ready"]:
                self._ready.set()
            elif words:
                self.hear(words)


class Fleet:
    """All processes of a measurement.

    Args:
        folder: The folder for their logs.
        patience: How many seconds each may take to stop.
    """

    def __init__(self, folder: Path, *, patience: float = 5) -> None:
        self._folder = folder
        self._patience = patience
        self._children: list[Child] = []

    async def start(self, role: str, *arguments: object) -> Child:
        """Start a process in a role of `benchmarks.process`; `Child.ready` waits for it."""
        command = (sys.executable, "-m", "benchmarks.process", role, *map(str, arguments))
        return await self.run(role, *command)

    async def run(
        self,
        name: str,
        *command: str,
        environment: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> Child:
        """Start any process.

        Args:
            name: The name of its log.
            command: The program and its arguments.
            environment: Variables in addition to those of this process.
            folder: Its working directory.
        """
        log = self._folder / f"{name}-{len(self._children)}.log"
        kept = {key: text for key, text in os.environ.items() if key != "GOOGLE_API_KEY"}
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env=kept | dict(environment or {}),
            )
        child = Child(process, log)
        self._children.append(child)
        return child

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(child.stop(self._patience) for child in self._children))
