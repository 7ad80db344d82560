"""What all processes do: refuse faulty settings, say that they are ready and alive, and follow."""

from __future__ import annotations

import asyncio
import os

import structlog

from signoff.broker.heartbeat import TTL, beat
from signoff.broker.ledger.ledger import Ledger
from signoff.cli import log as logs
from signoff.cli.composition.kinds import name as process_name
from signoff.cli.composition.parts import Parts
from signoff.cli.composition.reload import Apply, Reloader
from signoff.cli.config.check import require
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import LedgerUnavailable

log = structlog.get_logger(__name__)


def prepare(settings: Settings, kind: str) -> None:
    """Configure the log and refuse settings with errors; warnings are logged.

    Args:
        settings: As `load_settings` gives them to this kind of process.
        kind: Of process.

    Raises:
        ConfigErrors: There are errors.
    """
    logs.configure(settings.logging)
    for warning in require(settings, kind):
        log.warning("config.warning", problem=str(warning))


def ready(kind: str, **more: object) -> None:
    """Say that the process can do its work; tests, `signoff up` and the demo wait for it."""
    log.info("ready", kind=kind, pid=os.getpid(), **more)


def renewing(parts: Parts) -> Apply:
    """Return what lets everybody who knows the directory of a process see another one.

    To be called before anybody has looked who is away: then it is the directory of the settings.
    """
    directory = parts.decisions.directory
    return lambda fresh: directory.become(fresh.everybody)


async def beat_forever(ledger: Ledger, kind: str, reloader: Reloader) -> None:
    """Say that this process is alive, as long as it is."""
    while True:
        try:
            await beat(ledger, kind, process_name(), reloader.state)
        except LedgerUnavailable as error:
            log.warning("heartbeat.ledger_unavailable", error=str(error))
        await asyncio.sleep(TTL / 3)
