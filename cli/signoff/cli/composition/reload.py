"""Reads people, queues, schedules and policies while a process runs: all of it, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from signoff.cli import log as logs
from signoff.cli.config.check import require
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import Settings, load_settings

log = structlog.get_logger(__name__)

EVERY: Final = 5.0
"""Seconds between two looks whether a file has changed."""

Apply = Callable[[Settings], None]
"""Takes settings over. It does not wait for anything, so that nobody sees half of them."""

_Stamps = tuple[tuple[int, int, int], ...]


class Reloader:
    """Takes over what can change while a process runs, when told to, or when a file has changed.

    It is a listener of the gateway: ``/readyz`` then says what is wrong with the settings.

    Args:
        settings: Those that the process was started with.
        kind: Of process.
        apply: Take over new settings, in order.
    """

    name = "settings"
    remote = True
    """Requests go on by the settings in force."""

    def __init__(self, settings: Settings, kind: str, *apply: Apply) -> None:
        self.settings = settings
        self.problem = ""
        self.every = EVERY
        self._digest = settings.rules_digest
        self._kind = kind
        self._apply = apply
        self._asked = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """What is in force, for `signoff doctor` (JSON): see `rules_digest`, and the problem."""
        return json.dumps({"rules": self._digest, "problem": self.problem})

    def ask(self) -> None:
        """Have the files read again; from any thread, and from a signal handler."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._asked.set)

    async def start(self) -> None:
        """Begin to look, in the background."""
        self._task = asyncio.create_task(self.run_forever())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def run_forever(self) -> None:
        """Read the files again whenever that is asked for, or one of them has changed."""
        self._loop = asyncio.get_running_loop()
        seen = self._stamps()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.every):
                    await self._asked.wait()
            now = self._stamps()
            if self._asked.is_set() or now != seen:
                self._asked.clear()
                seen = now
                await self.reload()

    async def reload(self) -> bool:
        """Read the files, and take over what they say unless there is an error in them.

        Returns:
            Whether the files are good.
        """
        try:
            fresh = await asyncio.to_thread(self._read)
        except Exception as error:  # noqa: BLE001 -- people and policies may come from others' code
            faults = "; ".join(map(str, error.faults)) if isinstance(error, ConfigErrors) else error
            self.problem = f"the settings were not taken over, the earlier ones rule: {faults}"
            log.error("config.not_reloaded", kind=self._kind, problem=self.problem)  # noqa: TRY400 -- the message says it all
            return False
        self.problem = ""
        after = self.settings.renewed(fresh)
        changed = after.rules_digest != self._digest
        if restart := self.settings.fixed_differences(fresh):
            log.warning("config.needs_restart", kind=self._kind, sections=restart)
        self.settings, self._digest = after, after.rules_digest
        if changed:
            for apply in self._apply:
                apply(after)
            logs.configure(after.logging)
        people, policies = len(after.people), len(after.policies)
        log.info(
            "config.reloaded", kind=self._kind, changed=changed, people=people, policies=policies
        )
        return True

    def _read(self) -> Settings:
        fresh = load_settings(self.settings.file, self._kind)
        require(fresh, self._kind)
        return fresh

    def _stamps(self) -> _Stamps:
        """Return by what a change of each file is seen."""
        found = []
        for file in self._files():
            with contextlib.suppress(OSError):
                about = file.stat()
                found.append((about.st_mtime_ns, about.st_size, about.st_ino))
        return tuple(found)

    def _files(self) -> list[Path]:
        settings = self.settings
        names = [settings.directory.csv, *(one.ics for one in settings.schedules)]
        own = [] if settings.file is None else [settings.file]
        return [*own, *(settings.home / one for one in names if one)]
