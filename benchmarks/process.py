"""The measured processes: ``python -m benchmarks.process ROLE REDIS_URL``.

They report events to the benchmark by lines on standard output: a pipe costs microseconds, but a
second connection to Redis would distort the measurement.
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

from benchmarks.office import APP, DEFAULT, DIRECTORY, ESCALATING, POLICIES, open_ledger
from signoff.broker import stages
from signoff.broker.directory.roster import Roster
from signoff.broker.doorbells.celery import make_celery, queues
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.doorbells.push import RedisBell
from signoff.broker.ledger.change import Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.reconciler import Reconciler
from signoff.broker.work import SendCard
from signoff.channels import tasks as channel_tasks
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.outbox import drain
from signoff.channels.pipeline.route import Router
from signoff.cli.composition.process import collect_less
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.worker import tasks as worker_tasks
from signoff.worker.executor import Executor
from signoff.worker.port import Fence, Runtime, TurnResult

THREADS = 8
"""The threads of each process, in every comparison."""

LINKS = ("bench.one", "bench.two", "bench.three")
"""The tasks of the bare chain; each has its own queue, like the stages of Signoff."""


def tell(*words: object) -> None:
    """Report an event to the benchmark: one line, in one write."""
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


def _ready() -> None:
    """Report that a process of Signoff is ready, after what all of them do then."""
    collect_less()
    tell("ready")


def consume(app: Celery, queue_names: Sequence[str], *, ready: Callable[[], None] = _ready) -> None:
    """Work on queues until a stop, as `signoff worker` does: in threads, without gossip."""
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
        ready_callback=lambda _: ready(),
    )
    worker.start()


class _Consumer(Worker):
    def setup_logging(self, colorize: bool | None = None) -> None:
        del colorize


# -- bare Celery -----------------------------------------------------------------------------------


def bare(url: str) -> None:
    """Run three tasks, each sent by the one before, and nothing else."""
    app = make_celery(url, name="bare")
    # Signoff's own consumer and transport are for doorbells. These tasks are not doorbells: a lost
    # one is a lost unit.
    app.conf.update(worker_consumer="celery.worker.consumer:Consumer", broker_transport=None)

    def link(place: int) -> Callable[[str], None]:
        def task(unit: str) -> None:
            if place + 1 == len(LINKS):
                tell("end", unit, time.monotonic_ns())
            else:
                app.send_task(LINKS[place + 1], args=(unit,), queue=f"signoff.{LINKS[place + 1]}")

        return task

    for place, name in enumerate(LINKS):
        app.task(name=name)(link(place))
    consume(app, LINKS, ready=lambda: tell("ready"))


# -- Signoff without an agent ----------------------------------------------------------------------


class NullRuntime:
    """Resumes runs without doing anything, and reports when it was called."""

    async def start(self, run: Run, fence: Fence) -> TurnResult:
        """Never called: the benchmark opens the pauses itself."""
        raise NotImplementedError

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> TurnResult:
        """Report the time and end the run."""
        del approvals, fence
        tell("end", run.id, time.monotonic_ns())
        return TurnResult(text="done")

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Never called: the runs of the benchmark wait for one approval."""
        del run, approvals
        return False


def executor(url: str) -> None:
    """The worker of Signoff with a runtime that does nothing."""
    app, ledger = _parts(url)
    _work(app, ledger, NullRuntime(), [APP])


def channels(url: str) -> None:
    """The stages `route` and `deliver.email`; the latter into a channel without recipients."""
    # Imported here, because `signoff.testing` imports the agent framework.
    from signoff.testing import FakeChannel  # noqa: PLC0415

    app, ledger = _parts(url)
    channel = FakeChannel()
    router = Router(ledger, policies=POLICIES, fallback=DEFAULT, directory=DIRECTORY)
    delivery = Delivery(ledger, channel, directory=DIRECTORY)
    stage = stages.deliver(channel.name)

    async def work(items: Sequence[Item]) -> None:
        await delivery.work(items)
        channel.delivered.clear()
        # After the commit: a person does not answer a mail within a millisecond.
        for item in items:
            if isinstance(item.work, SendCard):
                tell("card", item.work.approval)

    loop = LoopThread()
    router.work_locally({stage: work})
    channel_tasks.register(
        app, loop, {stages.ROUTE: router.drain, stage: lambda: drain(ledger, stage, work)}
    )
    loop.spawn(Reconciler(Roster(ledger, DIRECTORY)).run_forever())
    consume(app, [stages.ROUTE, stage])


def timers(url: str, lease: str) -> None:
    """The timers of `signoff channels` and its stage `route`; an input line starts them."""
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
    """The worker of Signoff with real agents, built as `signoff worker` builds it."""
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
    """ADK's Runner alone: reads ``count at_once`` lines, and reports the time of each."""
    from benchmarks.naked import Naked  # noqa: PLC0415

    runner = Naked(sessions, Path(folder), float(delay))
    tell("ready")
    for line in sys.stdin:
        count, at_once = map(int, line.split())
        tell("took", runner.loop.run(runner.measure(count, at_once)))


def _parts(url: str) -> tuple[Celery, Ledger]:
    store = Store.open(url)
    return make_celery(url), open_ledger(store, RedisBell(store))


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
    """Set every side to the log level that `celery worker` has by default."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def main() -> None:
    """Run one role until a stop."""
    quieten()
    role, *arguments = sys.argv[1:]
    call: Callable[..., Any] = ROLES[role]
    call(*arguments)


if __name__ == "__main__":
    main()
