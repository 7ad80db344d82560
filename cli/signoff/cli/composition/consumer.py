"""Runs the processes that work on stages: how each starts, listens for work, and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import FrameType, MappingProxyType
from typing import Any, Final

import structlog
from celery.apps.worker import Worker
from celery.exceptions import SecurityWarning
from celery.worker import state as worker_state

from signoff.broker.doorbells.celery import queues
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.doorbells.waiting import wake
from signoff.broker.effects import Cards
from signoff.broker.timers.reconciler import Reconciler
from signoff.cli.composition.monitoring import exported, traced
from signoff.cli.composition.parts import Parts
from signoff.cli.composition.process import announcing, beat_forever, ready, renewing
from signoff.cli.composition.reload import Apply, Reloader
from signoff.cli.doctor.brokers import require_broker

log = structlog.get_logger(__name__)

_FAILED: Final = 1

_PATIENCE: Final = 10
"""The seconds that background work has to end once it is cancelled."""

BackgroundWork = Callable[[], Coroutine[Any, Any, object]]
"""Runs beside the stages as long as the process."""


def consume(
    parts: Parts,
    *,
    kind: str,
    stages: list[str],
    threads: int,
    register: Callable[[LoopThread], None],
    background: Mapping[str, BackgroundWork] = MappingProxyType({}),
    cards: Cards | None = None,
    close: Callable[[], Coroutine[Any, Any, None]],
    renew: Apply,
    stopping: Callable[[], None] | None = None,
) -> int:
    """Work on stages until told to stop; return the exit code.

    Raises:
        LedgerUnavailable: Redis cannot be reached at the start. Later on it is waited for.
        BrokerUnavailable: The broker cannot be reached, after several tries.
        ConfigError: The port of its metrics is taken.
    """
    with ExitStack() as stack:
        ports = stack.enter_context(exported(parts.settings, kind, stages))
        stack.enter_context(traced(parts.settings, kind))
        loop = LoopThread()
        stack.callback(loop.stop)
        stack.callback(lambda: loop.run(parts.ledger.close()))
        stack.callback(lambda: loop.run(close()))
        loop.run(parts.ledger.now())
        require_broker(parts.celery)
        register(loop)
        parts.celery.conf.task_queues = queues(stages)
        # Celery warns about root because of pickled messages, but the app accepts only JSON.
        warnings.filterwarnings("ignore", category=SecurityWarning)
        worker = _Consumer(
            app=parts.celery,
            hostname=f"{kind}-{os.getpid()}@{socket.gethostname()}",
            pool="threads",
            concurrency=threads,
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            ready_callback=lambda _: ready(kind, stages=len(stages), threads=threads, **ports),
        )
        worker.stopping = stopping
        reloader = Reloader(parts.settings, kind, renewing(parts), renew)
        worker.renewing = reloader.ask
        works: dict[str, BackgroundWork] = {
            "reconciler": Reconciler(
                parts.decisions.roster, cards=cards, pack_after=parts.settings.redis.pack_after
            ).run_forever,
            "settings": reloader.run_forever,
            "heartbeat": partial(beat_forever, parts, kind, reloader, announcing(parts)),
            **background,
        }
        tasks = loop.run(_begin(works))
        # It ends before what it uses is closed, and before the log says "stopped".
        stack.callback(lambda: loop.run(_end(tasks)))
        worker.start()
    log.info("stopped", kind=kind)
    return int(worker.exitcode or 0)


class _Consumer(Worker):
    """A Celery worker that keeps our log configuration and stops on the usual signals."""

    stopping: Callable[[], None] | None = None
    """Called once, in a signal handler, when the worker has to stop."""

    renewing: Callable[[], None] | None = None
    """Called in a signal handler to reload the settings."""

    def setup_logging(self, colorize: bool | None = None) -> None:
        """Keep our log configuration."""

    def install_platform_tweaks(self, worker: object) -> None:
        """Finish running work on the first signal, and exit at once on the second.

        SIGHUP reloads the settings, or stops the worker if it runs at a terminal. Celery itself
        would re-execute the process on SIGHUP, and write to standard output.
        """

        def stop(number: int, frame: FrameType | None) -> None:
            if worker_state.should_stop is not None:
                # Interrupted work is claimed again when its lease expires.
                os._exit(128 + number)
            if self.stopping is not None:
                self.stopping()
            worker_state.should_stop = os.EX_OK  # type: ignore[assignment] # the stub says None

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop)
        if (renewing := self.renewing) is not None and not os.isatty(0):
            signal.signal(signal.SIGHUP, lambda *_: renewing())


async def _begin(background: Mapping[str, BackgroundWork]) -> list[asyncio.Task[object]]:
    """Start what the process cannot do without; if one fails, the process stops."""

    def ended(task: asyncio.Task[object]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("background.died", name=task.get_name(), exc_info=error)
            worker_state.should_stop = _FAILED  # type: ignore[assignment] # the stub says None
            wake()

    tasks = [asyncio.create_task(work(), name=name) for name, work in background.items()]
    for task in tasks:
        task.add_done_callback(ended)
    return tasks


async def _end(tasks: Sequence[asyncio.Task[object]]) -> None:
    """Cancel tasks and wait until they have ended; one that ignores it is left to the loop."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=_PATIENCE)
