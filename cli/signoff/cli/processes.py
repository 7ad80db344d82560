"""The processes that work on stages: how each is built, how it starts and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import structlog
from celery.apps.worker import Worker
from celery.exceptions import SecurityWarning
from celery.worker import state as worker_state

from signoff.broker import stages
from signoff.broker.doorbells.celery import queues
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.doorbells.waiting import wake
from signoff.broker.effects import Cards
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.policy_history import note_policies
from signoff.broker.server.health import eviction_problem
from signoff.broker.timers.leftovers import Leftovers
from signoff.broker.timers.reconciler import Reconciler
from signoff.broker.timers.vacancies import Vacancies
from signoff.cli.composition.kinds import user as process_user
from signoff.cli.composition.monitoring import exported, traced
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.process import announcing, beat_forever, prepare, ready, renewing
from signoff.cli.composition.receipts import private_key
from signoff.cli.composition.reload import Apply, Reloader
from signoff.cli.composition.slack import further_channels, group_keeper, slack_groups
from signoff.cli.config.settings import Settings
from signoff.cli.doctor.brokers import require_broker
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import AppNotFound, LedgerError, LedgerUnavailable

if TYPE_CHECKING:
    from signoff.channels.email.inbound.intake import Intake
    from signoff.channels.email.message_ids import MessageKey
    from signoff.channels.email.outbound.channel import EmailChannel
    from signoff.channels.pipeline.deliver import Delivery
    from signoff.channels.pipeline.port import Channel
    from signoff.channels.pipeline.pushes import Subscribed

log = structlog.get_logger(__name__)

CHANNEL_THREADS: Final = 8
"""Each thread waits while its stage is drained on the loop, so a few per stage are enough."""

_FAILED: Final = 1

_PATIENCE: Final = 10
"""The seconds that background work has to end once it is cancelled."""

Drain = Callable[[], Coroutine[Any, Any, int]]
"""Works through one stage."""

_Work = Callable[[], Coroutine[Any, Any, object]]
"""Runs beside the stages as long as the process."""


def run_worker(settings: Settings, apps: Sequence[str] = ()) -> int:
    """Run agents until told to stop; return the exit code.

    Args:
        settings: The settings.
        apps: The agents to run; if empty, all in the folder and all remote agents.

    Raises:
        ConfigErrors: The settings have errors.
        AppNotFound: A named agent is not there.
        LedgerUnavailable, BrokerUnavailable: See `_consume`.
    """
    prepare(settings, "worker")
    # Only workers have agent frameworks in memory: they take seconds to import.
    from signoff.cli.composition.runtimes import open_runtime  # noqa: PLC0415
    from signoff.worker import tasks  # noqa: PLC0415
    from signoff.worker.agent_folders import app_names  # noqa: PLC0415
    from signoff.worker.executor import Executor  # noqa: PLC0415

    folder, remote = settings.agents_folder, settings.agents.remote
    local = app_names(folder) if folder.is_dir() or not remote else []
    found = [*local, *(name for name in remote if name not in local)]
    names = list(apps) or found
    if missing := [name for name in names if name not in found]:
        raise AppNotFound(
            f"There is no agent {missing[0]!r} in {folder}. "
            f"There are: {', '.join(found) or 'none'}."
        )
    if not names:
        raise AppNotFound(
            f"There is no agent in {folder}: nothing to work on. It has a folder for each agent; "
            "`signoff init` writes an example into an empty folder."
        )
    parts = build(settings, decides=False)
    runtime, renew_runtime, close = open_runtime(parts, names)
    executor = Executor(
        parts.ledger,
        runtime,
        lease=settings.agents.lease,
        slots=settings.agents.concurrency,
        valid_for=settings.agents.valid_for,
        hide=settings.all_hidden,
    )

    def renew(fresh: Settings) -> None:
        executor.hide = fresh.all_hidden
        renew_runtime(fresh)

    return _consume(
        parts,
        kind="worker",
        stages=tasks.stages_of(names),
        threads=settings.agents.concurrency,
        register=lambda loop: tasks.register(parts.celery, loop, executor),
        stopping=executor.stop_claiming,
        close=close,
        renew=renew,
    )


def run_channels(settings: Settings) -> int:
    """Route, deliver and receive answers until told to stop; return the exit code.

    Raises:
        ConfigErrors: The settings have errors.
        LedgerUnavailable, BrokerUnavailable: See `_consume`.
    """
    prepare(settings, "channels")
    private_key(settings)
    from signoff.channels import tasks  # noqa: PLC0415
    from signoff.channels.email.message_ids import MessageKey  # noqa: PLC0415
    from signoff.channels.pipeline.removed_channels import RemovedChannels  # noqa: PLC0415
    from signoff.cli.composition.routing import router_of  # noqa: PLC0415

    parts, closing = build(settings), AsyncExitStack()
    key = MessageKey(parts.ledger)
    email = _email(parts, key)
    more = further_channels(settings, parts.ledger)
    closing.push_async_callback(more.close)
    intake = _intake(parts, key, closing)
    router = router_of(parts)
    deliveries = [_delivery(parts, channel) for channel in (email, *more.channels)]
    drains = tasks.drains(router, intake, deliveries)

    if settings.inbox.url and "link" in settings.inbox.sign_in:
        from signoff.channels.inbox.auth.link_mails import LinkMails  # noqa: PLC0415

        drains[stages.SIGN_IN] = LinkMails(parts.decisions, email, settings.inbox).drain
    keeper = group_keeper(parts)
    vacant = Vacancies(parts.decisions.roster, settings.policies, settings.default)
    renewed: asyncio.Queue[Settings] = asyncio.Queue()
    background: dict[str, _Work] = {
        "vacancies": vacant.run_forever,
        "leftovers": Leftovers(parts.ledger).run_forever,
        "removed channels": RemovedChannels(parts.ledger, partial(_delivery, parts)).run_forever,
        "policies": partial(_note_policies, parts.ledger, settings, renewed),
        "redis": partial(_report_redis, parts.ledger),
        **_archiving(parts),
    }
    if keeper is not None:
        background["groups"] = keeper[0].run_forever
        closing.push_async_callback(keeper[1])
    posting = _posting(parts, background, closing)
    drains |= posting

    def renew(fresh: Settings) -> None:
        router.use(fresh.policies, fresh.default)
        vacant.use(fresh.policies, fresh.default)
        renewed.put_nowait(fresh)
        if keeper is not None:
            keeper[0].groups = slack_groups(fresh)

    return _consume(
        parts,
        kind="channels",
        stages=list(drains),
        # More threads, so that a webhook that hangs does not delay the channels.
        threads=CHANNEL_THREADS + len(posting),
        register=lambda loop: tasks.register(parts.celery, loop, drains),
        close=closing.aclose,
        background=background,
        cards=router.cards,
        renew=renew,
    )


def _email(parts: Parts, key: MessageKey) -> EmailChannel:
    """Return the channel that sends mail."""
    from signoff.channels.email.imap.oauth import Tokens  # noqa: PLC0415
    from signoff.channels.email.outbound.channel import EmailChannel  # noqa: PLC0415
    from signoff.channels.email.outbound.pace import Pace  # noqa: PLC0415

    smtp = parts.settings.email.smtp
    return EmailChannel(
        parts.settings.email,
        key=key,
        pace=Pace(parts.ledger, smtp),
        tokens=Tokens.of(smtp.oauth, parts.ledger, timeout=smtp.timeout),
    )


def _delivery(parts: Parts, channel: Channel) -> Delivery:
    """Return the stage that delivers by a channel."""
    from signoff.channels.pipeline.bundles import BundleRule  # noqa: PLC0415
    from signoff.channels.pipeline.deliver import Delivery  # noqa: PLC0415

    settings = parts.settings
    return Delivery(
        parts.ledger,
        channel,
        directory=parts.decisions.directory,
        inbox=settings.inbox,
        roster=parts.decisions.roster,
        bundling=BundleRule(settings.delivery.bundle_over, settings.delivery.bundle_within),
        notifications=settings.notifications.as_told(),
        subscribed=_subscribed(parts),
    )


def _subscribed(parts: Parts) -> Subscribed | None:
    """Return what finds the people whose browsers are notified; None without push."""
    if parts.settings.inbox.notifies is None:
        return None
    from signoff.channels.inbox.subscriptions import subscribed  # noqa: PLC0415 -- few want it

    return partial(subscribed, parts.ledger)


def _intake(parts: Parts, key: MessageKey, closing: AsyncExitStack) -> Intake:
    """Return the intake of mail; `closing` ends its processes."""
    from signoff.channels.email.authentication.authenticator import (  # noqa: PLC0415
        Authenticator,
    )
    from signoff.channels.email.inbound.intake import Intake  # noqa: PLC0415
    from signoff.channels.email.inbound.limits import Limits  # noqa: PLC0415
    from signoff.channels.email.inbound.readers import Provers, Readers  # noqa: PLC0415
    from signoff.channels.email.outbound.channel import sent_lines  # noqa: PLC0415

    settings, email = parts.settings, parts.settings.email
    most, seconds = email.limits.readers, email.limits.seconds
    readers = Readers(most=most, seconds=seconds)
    authenticator = Authenticator.of(email.authentication, dkim=email.verifies_dkim)
    provers = Provers(authenticator, most=most, seconds=seconds)
    for one in (readers, provers):
        closing.push_async_callback(one.close)

    def sent(approval: Approval, person: str) -> frozenset[str]:
        directory = parts.decisions.directory
        return sent_lines(
            approval, person, directory=directory, settings=email, inbox=settings.inbox
        )

    return Intake(
        parts.decisions,
        mailbox=email.mailbox,
        sent_lines=sent,
        read=readers.read,
        limits=Limits(parts.ledger, email.limits),
        authenticator=provers,
        required=email.required,
        key=key,
        rewriting=email.message_id_domains,
        absence_page=settings.inbox.absence_page,
    )


def _posting(
    parts: Parts, background: dict[str, _Work], closing: AsyncExitStack
) -> dict[str, Drain]:
    """Return the stages that post to other servers; `closing` closes their connections.

    Adds the work that these stages need in the background.
    """
    settings, drains = parts.settings, dict[str, Drain]()
    if settings.webhooks:
        from signoff.channels.webhooks.feed import Feed  # noqa: PLC0415 -- httpx
        from signoff.channels.webhooks.sender import Sender  # noqa: PLC0415

        for one in settings.webhooks:
            sender = Sender(parts.ledger, one)
            drains[stages.webhook(one.name)] = sender.drain
            closing.push_async_callback(sender.close)
        background["webhooks"] = Feed(parts.ledger, settings.webhooks).run_forever
    if (push := settings.inbox.notifies) is not None:
        from signoff.channels.push.sender import PushSender  # noqa: PLC0415 -- an extra

        pushes = PushSender(parts.decisions, settings.inbox, push)
        drains[stages.PUSH] = pushes.drain
        background["push key"] = pushes.announce
        closing.push_async_callback(pushes.close)
    if settings.aap.enabled:
        from signoff.cli.composition.aap import notifier  # noqa: PLC0415 -- few serve it

        receivers, drains[stages.AAP] = notifier(parts)
        closing.push_async_callback(receivers.close)
    return drains


def _consume(
    parts: Parts,
    *,
    kind: str,
    stages: list[str],
    threads: int,
    register: Callable[[LoopThread], None],
    stopping: Callable[[], None] | None = None,
    close: Callable[[], Coroutine[Any, Any, None]] | None = None,
    background: Mapping[str, _Work] | None = None,
    cards: Cards | None = None,
    renew: Apply,
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
        if close is not None:
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
        works: dict[str, _Work] = {
            "reconciler": Reconciler(
                parts.decisions.roster, cards=cards, pack_after=parts.settings.redis.pack_after
            ).run_forever,
            "settings": reloader.run_forever,
            "heartbeat": partial(beat_forever, parts, kind, reloader, announcing(parts)),
            **(background or {}),
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


def _archiving(parts: Parts) -> dict[str, _Work]:
    """Return what archives ended runs, if [retention] after is set."""
    settings = parts.settings
    if settings.retention.after is None:
        return {}
    from signoff.broker.archive.archiver import Archiver  # noqa: PLC0415 -- only if it is set
    from signoff.broker.archive.files import ArchiveFiles  # noqa: PLC0415

    archiver = Archiver(
        parts.ledger,
        ArchiveFiles(settings.archive_folder),
        after=settings.retention.after,
        feeds=bool(settings.webhooks),
    )
    return {"archive": archiver.run_forever}


async def _report_redis(ledger: Ledger) -> None:
    """Log once if Redis may evict records. `signoff doctor` checks more, with more permissions."""
    try:
        problem = await eviction_problem(ledger)
    except LedgerUnavailable as error:
        log.warning("redis.not_checked", error=str(error))
        return
    if problem:
        log.error("redis.evicts", problem=problem)


async def _note_policies(
    ledger: Ledger, settings: Settings, renewed: asyncio.Queue[Settings]
) -> None:
    """Record the versions of the policies that this process routes by, now and on each change."""
    while True:
        try:
            policies, fallback = settings.policies, settings.default
            fresh = await note_policies(ledger, policies, fallback, by=process_user())
        except LedgerError as error:
            fresh = ()
            log.warning("policy.not_noted", error=str(error))
        for one in fresh:
            log.info("policy.changed", policy=one.policy, version=one.version)
        settings = await renewed.get()


async def _begin(background: Mapping[str, _Work]) -> list[asyncio.Task[object]]:
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
