"""What runs in the processes that are measured: ``python -m benchmarks.process ROLE REDIS_URL``.

They tell the benchmark what happens by lines on standard output: a pipe costs microseconds, where
a second connection to Redis would be measured with the rest.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog
from celery import Celery
from celery.apps.worker import Worker

from benchmarks.office import APP, DEFAULT, DIRECTORY, ESCALATING, POLICIES
from signoff.broker import stages
from signoff.broker.directory.roster import Roster
from signoff.broker.doorbells.celery import CeleryBell, make_celery, queues
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.ledger.change import Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.reconciler import Reconciler
from signoff.broker.work import SendCard
from signoff.channels import tasks as channel_tasks
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.outbox import drain
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.worker import tasks as worker_tasks
from signoff.worker.executor import Executor
from signoff.worker.port import Fence, Runtime, Turn

THREADS = 8
"""Of each process, in every comparison."""

LINKS = ("bench.one", "bench.two", "bench.three")
"""The tasks of the bare chain; each has a queue of its own, as the stages of Signoff have."""


def tell(*words: object) -> None:
    """Say something to the benchmark: one line, in one write."""
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


def consume(app: Celery, queue_names: Sequence[str]) -> None:
    """Work on queues until told to stop, as `signoff worker` does: in threads, without gossip."""
    app.conf.task_queues = queues([name.removeprefix("signoff.") for name in queue_names])
    worker = _Consumer(
        app=app,
        hostname=f"bench-{os.getpid()}@localhost",
        pool="threads",
        concurrency=THREADS,
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        ready_callback=lambda _: tell("ready"),
    )
    worker.start()


class _Consumer(Worker):
    def setup_logging(self, colorize: bool | None = None) -> None:
        del colorize


# -- bare Celery -----------------------------------------------------------------------------------


def bare(url: str) -> None:
    """Three tasks in a chain of sends, without anything else."""
    app = make_celery(url, name="bare")
    # Signoff's own consumer takes doorbells alone, and these tasks are none.
    app.conf.worker_consumer = "celery.worker.consumer:Consumer"

    def link(place: int) -> Callable[[str], None]:
        def task(unit: str) -> None:
            if place + 1 == len(LINKS):
                tell("end", unit, time.monotonic_ns())
            else:
                app.send_task(LINKS[place + 1], args=(unit,), queue=f"signoff.{LINKS[place + 1]}")

        return task

    for place, name in enumerate(LINKS):
        app.task(name=name)(link(place))
    consume(app, LINKS)


# -- Signoff without an agent ----------------------------------------------------------------------


class NullRuntime:
    """Resumes by doing nothing, and says when it was called."""

    async def start(self, run: Run, fence: Fence) -> Turn:
        """Never called: the benchmark opens the pauses itself."""
        raise NotImplementedError

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> Turn:
        """Tell the time and end the run."""
        del approvals, fence
        tell("end", run.id, time.monotonic_ns())
        return Turn(text="done")

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Never asked: the runs of the benchmark wait for one approval."""
        del run, approvals
        return False


def executor(url: str) -> None:
    """The worker of Signoff around a runtime that does nothing."""
    app, ledger = _parts(url)
    _work(app, ledger, NullRuntime(), [APP])


def channels(url: str) -> None:
    """The stages `route` and `deliver.email`, the latter into a channel that reaches nobody."""
    # Here and not above: `signoff.testing` has the agent framework in memory.
    from signoff.testing import FakeChannel  # noqa: PLC0415

    app, ledger = _parts(url)
    channel = FakeChannel()
    router = Router(ledger, policies=POLICIES, fallback=DEFAULT, directory=DIRECTORY)
    delivery = Delivery(ledger, channel, directory=DIRECTORY)
    stage = stages.deliver(channel.name)

    async def work(items: Sequence[Item]) -> None:
        await delivery.work(items)
        channel.delivered.clear()
        # After the commit, as a person would: nobody answers a mail in the millisecond it leaves.
        for item in items:
            if isinstance(item.work, SendCard):
                tell("card", item.work.approval)

    loop = LoopThread()
    channel_tasks.register(
        app, loop, {stages.ROUTE: router.drain, stage: lambda: drain(ledger, stage, work)}
    )
    loop.spawn(Reconciler(Roster(ledger, DIRECTORY)).run_forever())
    consume(app, [stages.ROUTE, stage])


def timers(url: str, lease: str) -> None:
    """The timers of `signoff channels`, and its stage `route`; they begin at a line of input."""
    app, ledger = _parts(url)
    router = Router(ledger, policies=ESCALATING, fallback=DEFAULT, directory=DIRECTORY)
    loop = LoopThread()
    channel_tasks.register(app, loop, {stages.ROUTE: router.drain})

    def begin() -> None:
        sys.stdin.readline()
        roster = Roster(ledger, DIRECTORY)
        reconciler = Reconciler(roster, cards=router.cards, lease=float(lease))
        loop.spawn(reconciler.run_forever())

    threading.Thread(target=begin, daemon=True).start()
    consume(app, [stages.ROUTE])


# -- agents ----------------------------------------------------------------------------------------


def agents(url: str, folder: str, slots: str, delay: str) -> None:
    """The worker of Signoff with real agents, put together as `signoff worker` does it."""
    from benchmarks.naked import let_think  # noqa: PLC0415
    from signoff.worker.adk.apps import Apps, session_service  # noqa: PLC0415
    from signoff.worker.adk.guard.guard import GuardPlugin  # noqa: PLC0415
    from signoff.worker.adk.runtime import AdkRuntime  # noqa: PLC0415

    app, ledger = _parts(url)
    guard = GuardPlugin(ledger)
    where = Path(folder)
    runners = Apps(where, session_service("", where, ledger.store), lambda: guard)
    let_think(runners.runner(APP).agent, float(delay))
    _work(app, ledger, AdkRuntime(runners, guard), [APP], slots=int(slots))


def naked(sessions: str, folder: str, delay: str) -> None:
    """ADK's Runner alone: reads ``count at_once`` lines, and tells how long each took."""
    from benchmarks.naked import Naked  # noqa: PLC0415

    runner = Naked(sessions, Path(folder), float(delay))
    tell("ready")
    for line in sys.stdin:
        count, at_once = map(int, line.split())
        tell("took", runner.loop.run(runner.measure(count, at_once)))


def _parts(url: str) -> tuple[Celery, Ledger]:
    app = make_celery(url)
    return app, Ledger(Store.open(url), CeleryBell(app))


def _work(
    app: Celery, ledger: Ledger, runtime: Runtime, apps: list[str], *, slots: int = THREADS
) -> None:
    loop = LoopThread()
    worker_tasks.register(app, loop, Executor(ledger, runtime, slots=slots))
    loop.spawn(Reconciler(Roster(ledger, DIRECTORY)).run_forever())
    consume(app, worker_tasks.stages_of(apps))


ROLES: dict[str, Callable[..., None]] = {
    one.__name__: one for one in (bare, executor, channels, timers, agents, naked)
}


def quieten() -> None:
    """Make every side as silent as `celery worker` is by default."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def main() -> None:
    """Run one role until told to stop."""
    quieten()
    role, *arguments = sys.argv[1:]
    call: Callable[..., Any] = ROLES[role]
    call(*arguments)


if __name__ == "__main__":
    main()
