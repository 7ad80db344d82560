"""The tasks of all processes: refuse faulty settings, report readiness, heartbeats, reloads."""

from __future__ import annotations

import gc
import json
import os
from typing import TYPE_CHECKING, Final

import structlog

from signoff.broker.heartbeat import TTL, beat
from signoff.broker.timers.packer import READS
from signoff.broker.timers.ticks import tick
from signoff.cli import log as logs
from signoff.cli.composition.kinds import name as process_name
from signoff.cli.composition.parts import Parts
from signoff.cli.composition.reload import Apply, Reloader
from signoff.cli.config.check import require
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import LedgerUnavailable

if TYPE_CHECKING:
    from signoff.broker.announcements import Announcer

log = structlog.get_logger(__name__)

_COLLECTED_AFTER: Final = 2_000
"""Objects, instead of 700: a batch of work keeps thousands of them for some milliseconds."""


def prepare(settings: Settings, kind: str) -> None:
    """Configure the log and refuse settings with errors; warnings are logged.

    The settings are those that `load_settings` returns for this kind of process.

    Raises:
        ConfigErrors: The settings have errors.
    """
    logs.configure(settings.logging)
    for warning in require(settings, kind):
        log.warning("config.warning", problem=str(warning))


def collect_less() -> None:
    """Let the garbage collector leave out what is loaded by now, and run less often.

    With Python's defaults, processes that work through batches spend a tenth of their CPU on it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_AFTER)


def ready(kind: str, **more: object) -> None:
    """Log that the process is ready; tests, `signoff up` and the demo wait for this event."""
    collect_less()
    log.info("ready", kind=kind, pid=os.getpid(), **more)


def renewing(parts: Parts) -> Apply:
    """Return a function that replaces the people in the directory that the whole process shares.

    Call this before the first refresh of absences: until then, the shared directory is the one
    that the settings have.
    """
    directory = parts.decisions.directory
    return lambda fresh: directory.become(fresh.everybody)


def announcing(parts: Parts) -> Announcer:
    """Let a process address messages about decisions in its own commits, once it knows how.

    Call this before the first refresh of absences, like `renewing`.
    """
    from signoff.broker.announcements import Announcer  # noqa: PLC0415 -- commands do not need it

    parts.ledger.announcer = announcer = Announcer(parts.decisions.directory)
    return announcer


def state_of(parts: Parts, reloader: Reloader) -> str:
    """Return what a heartbeat says, as JSON: settings, key ids, and the forms that can be read."""
    receipts = parts.ledger.receipts
    key_ids = receipts.key_ids if receipts is not None else {}
    return json.dumps(reloader.state | key_ids | READS)


async def beat_forever(parts: Parts, kind: str, reloader: Reloader, announcer: Announcer) -> None:
    """Send heartbeats as long as this process is alive, and learn from them how to reach people."""
    while True:
        heard: list[str] = []
        try:
            state = state_of(parts, reloader)
            back, heard = await beat(parts.ledger, kind, process_name(), state)
            if back:
                log.error("clock.set_back", seconds=round(back))
        except LedgerUnavailable as error:
            log.warning("heartbeat.ledger_unavailable", error=str(error))
        announcer.listen(heard, reloader.digest)
        await tick(TTL / 3)
