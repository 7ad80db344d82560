"""`signoff channels`: routes requests, delivers messages and reads answers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import structlog

from signoff.broker import stages
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.policy_history import note_policies
from signoff.broker.server.health import eviction_problem
from signoff.broker.timers.leftovers import Leftovers
from signoff.broker.timers.vacancies import Vacancies
from signoff.channels import tasks
from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.imap.oauth import Tokens
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.limits import Limits
from signoff.channels.email.inbound.readers import Provers, Readers
from signoff.channels.email.message_ids import MessageKey
from signoff.channels.email.outbound.channel import EmailChannel, sent_lines
from signoff.channels.email.outbound.rate_limit import MailRateLimit
from signoff.channels.pipeline.bundles import BundleRule
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Channel
from signoff.channels.pipeline.pushes import Subscribed
from signoff.channels.pipeline.removed_channels import RemovedChannels
from signoff.cli.composition.consumer import BackgroundWork, consume
from signoff.cli.composition.kinds import user as process_user
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.process import prepare
from signoff.cli.composition.receipts import private_key
from signoff.cli.composition.slack import further_channels, group_keeper, slack_groups
from signoff.cli.config.settings import Settings
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import LedgerError, LedgerUnavailable

log = structlog.get_logger(__name__)

CHANNEL_THREADS: Final = 8
"""Each thread waits while its stage is drained on the loop, so a few per stage are enough."""


def run_channels(settings: Settings) -> int:
    """Route, deliver and receive answers until told to stop; return the exit code.

    Raises:
        ConfigErrors: The settings have errors.
        LedgerUnavailable, BrokerUnavailable: See `consume`.
    """
    prepare(settings, "channels")
    private_key(settings)
    parts, closing = build(settings), AsyncExitStack()
    key = MessageKey(parts.ledger)
    email = _email(parts, key)
    more = further_channels(parts)
    closing.push_async_callback(more.close)
    intake = _intake(parts, key, closing)
    router = parts.router()
    deliveries = [_delivery(parts, channel) for channel in (email, *more.channels)]
    drains = tasks.drains(router, intake, deliveries)
    if settings.inbox.url and "link" in settings.inbox.sign_in:
        from signoff.channels.inbox.auth.link_mails import LinkMails  # noqa: PLC0415

        drains[stages.SIGN_IN] = LinkMails(parts.decisions, email, settings.inbox).drain
    keeper = group_keeper(parts)
    vacant = Vacancies(parts.decisions.roster, settings.policies, settings.default)
    renewed: asyncio.Queue[Settings] = asyncio.Queue()
    background: dict[str, BackgroundWork] = {
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

    return consume(
        parts,
        kind="channels",
        stages=list(drains),
        # More threads, so that a webhook that hangs does not delay the channels.
        threads=CHANNEL_THREADS + len(posting),
        register=lambda loop: tasks.register(parts.celery, loop, drains),
        background=background,
        cards=router.cards,
        close=closing.aclose,
        renew=renew,
    )


def _email(parts: Parts, key: MessageKey) -> EmailChannel:
    """Return the channel that sends mail."""
    smtp = parts.settings.email.smtp
    return EmailChannel(
        parts.settings.email,
        key=key,
        rate_limit=MailRateLimit(parts.ledger, smtp),
        tokens=Tokens.of(smtp.oauth, parts.ledger, timeout=smtp.timeout),
    )


def _delivery(parts: Parts, channel: Channel) -> Delivery:
    """Return the stage that delivers by a channel."""
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
    parts: Parts, background: dict[str, BackgroundWork], closing: AsyncExitStack
) -> dict[str, tasks.Drain]:
    """Return the stages that post to other servers; `closing` closes their connections.

    Adds the work that these stages need in the background.
    """
    settings, drains = parts.settings, dict[str, tasks.Drain]()
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


def _archiving(parts: Parts) -> dict[str, BackgroundWork]:
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
