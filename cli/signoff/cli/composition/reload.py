"""Reloads people, queues, schedules and policies while a process runs: all of them, or none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import structlog

from signoff.broker.timers.ticks import until_tick
from signoff.cli import log as logs
from signoff.cli.config.check import require
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import Settings, load_settings, stamps
from signoff.core.base.errors import ConfigError, SignoffError
from signoff.core.routing.targets import Reach

log = structlog.get_logger(__name__)

EVERY: Final = 5.0
"""Seconds between two checks whether a file has changed."""

Apply = Callable[[Settings], None]
"""Applies new settings. It does not await anything, so other tasks never see half of them."""


class Reloader:
    """Reloads what can change while a process runs: on request, and when a file has changed.

    It is a listener of the gateway, so ``/readyz`` reports errors in the settings.

    Args:
        settings: The settings that the process was started with.
        kind: The kind of process.
        apply: Functions that apply new settings, called in order.
    """

    name = "settings"
    remote = True
    """Errors in new settings do not stop requests: the current settings still apply."""

    def __init__(self, settings: Settings, kind: str, *apply: Apply) -> None:
        self.settings = settings
        self.problem = ""
        self.every = EVERY
        self.digest = settings.rules_digest
        self._kind = kind
        domains = settings.notifications.requester_domains
        self._reach = Reach(settings.channel_names, domains).text
        self._apply = apply
        self._asked = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> dict[str, str]:
        """What this process says of its settings in its heartbeat.

        It is the `rules_digest` of the current settings and the problem, for the doctor, and from a
        channels process how it reaches people, for an `Announcer`.
        """
        said = {"rules": self.digest, "problem": self.problem}
        return said | ({"reach": self._reach} if self._kind == "channels" else {})

    def ask(self) -> None:
        """Request a reload; can be called from any thread and from a signal handler."""
        if self._loop is None:
            self._asked.set()  # nothing waits for it yet
        else:
            self._loop.call_soon_threadsafe(self._asked.set)

    async def start(self) -> None:
        """Start to watch the files in the background."""
        self._task = asyncio.create_task(self.run_forever())

    async def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()

    async def run_forever(self) -> None:
        """Reload on each request, and whenever a file has changed."""
        self._loop = asyncio.get_running_loop()
        # A file may have changed since, because a process takes seconds to start.
        seen = self.settings.stamps
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until_tick(self.every)):
                    await self._asked.wait()
            now = stamps(self.settings)
            if self._asked.is_set() or now != seen:
                self._asked.clear()
                seen = now
                await self.reload()

    async def reload(self) -> bool:
        """Read the files, and apply them unless they have errors.

        Returns:
            Whether the files have no errors.
        """
        try:
            fresh = await asyncio.to_thread(self._read)
        except Exception as error:  # noqa: BLE001 -- people and policies may come from third-party code
            faults = "; ".join(map(str, error.faults)) if isinstance(error, ConfigErrors) else error
            self.problem = (
                f"the new settings have errors, so the earlier ones stay in force: {faults}"
            )
            log.error("config.not_reloaded", kind=self._kind, problem=self.problem)  # noqa: TRY400 -- the message says everything
            return False
        self.problem = ""
        after = self.settings.renewed(fresh)
        changed = after.rules_digest != self.digest
        if restart := self.settings.fixed_differences(fresh):
            log.warning("config.needs_restart", kind=self._kind, sections=restart)
        self.settings, self.digest = after, after.rules_digest
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
        fresh = _load_again(self.settings, self._kind)
        require(fresh, self._kind)
        return fresh


class CurrentSettings:
    """Settings that a command reads again when one of their files has changed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen = settings.stamps

    def read(self) -> Settings:
        """Return the settings as they are now; while they have errors, the last good ones."""
        if (now := stamps(self._settings)) != self._seen:
            self._seen = now
            with contextlib.suppress(SignoffError):
                self._settings = _load_again(self._settings)
        return self._settings


def _load_again(settings: Settings, kind: str = "") -> Settings:
    """Load settings again from their files.

    Raises:
        ConfigError: They have errors, or a file seems to be cut off, as on a full disk.
    """
    fresh = load_settings(settings.file, kind)
    if settings.people and not fresh.people:
        raise ConfigError(
            f"{settings.file}: nobody is in it any more, so it may be incomplete. If that is "
            "meant, restart the processes"
        )
    return fresh
