"""The Celery tasks of the channels: each drains its stage on the loop of the process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from celery import Celery

from signoff.broker import stages
from signoff.broker.decisions import Decisions
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.intake import (
    Intake,
    Proves,
    Read,
    SentLines,
    read_here,
)
from signoff.channels.email.inbound.limits import Limits
from signoff.channels.email.message_ids import MessageKey
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.inbox.subscriptions import subscribed
from signoff.channels.pipeline.bundles import Bundling
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.informing import Notifications
from signoff.channels.pipeline.port import Channel
from signoff.channels.pipeline.route import Router
from signoff.core.base.errors import LedgerError
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import EmailProof, Fallback, Policy

log = structlog.get_logger(__name__)

Drain = Callable[[], Coroutine[Any, Any, int]]
"""Works through one stage until nothing waits, and returns how many items there were."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the stages of the channels need.

    Attributes:
        ledger: The ledger.
        decisions: Makes the moves; on the same ledger and directory.
        policies: In order; the first that matches rules.
        fallback: Who is asked when no policy matches.
        directory: The people.
        channels: The ways to reach them.
        owners: Who owns an agent and never decides what it asks; see `Router`.
        mailbox: The address of ours that answers come to.
        inbox: The page that messages link to, if there is one.
        sent_lines: What a card's mail consists of; see `Intake`.
        read: Reads mails; see `Intake`.
        limits: Counts mails; see `Intake`.
        authenticator: Finds out who wrote them; see `Intake`.
        required: What must be proven about that; see `Intake`.
        key: Makes the codes in our Message-IDs, as for the email channel; see `Intake`.
        rewriting: Domains of relays that replace our Message-IDs; see `Intake`.
        bundling: When several cards become one message; None for never.
        notifications: How people are told who do not decide.
    """

    ledger: Ledger
    decisions: Decisions
    policies: Sequence[Policy]
    fallback: Fallback
    directory: Directory
    channels: Sequence[Channel]
    mailbox: str
    inbox: InboxSettings | None = None
    sent_lines: SentLines | None = None
    read: Read = read_here
    limits: Limits | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    authenticator: Proves | None = None
    required: EmailProof = EmailProof.TOKEN_FROM
    key: MessageKey | None = None
    rewriting: Sequence[str] = ()
    bundling: Bundling | None = None
    notifications: Notifications = field(default_factory=Notifications)


def make_router(services: Services) -> Router:
    """Return what works through the stage `route`, and makes the cards for the timers."""
    return Router(
        services.ledger,
        policies=services.policies,
        fallback=services.fallback,
        directory=services.directory,
        channels=[channel.name for channel in services.channels],
        owners=services.owners,
        notifications=services.notifications,
    )


def drains(services: Services, router: Router) -> dict[str, Drain]:
    """Return what works through each stage of the channels, by the name of the stage."""
    intake = Intake(
        services.decisions,
        mailbox=services.mailbox,
        sent_lines=services.sent_lines,
        read=services.read,
        limits=services.limits,
        authenticator=services.authenticator,
        required=services.required,
        key=services.key,
        rewriting=services.rewriting,
        absence_page=services.inbox.absence_page if services.inbox is not None else "",
    )
    notifies = services.inbox is not None and services.inbox.notifies is not None
    found: dict[str, Drain] = {stages.ROUTE: router.drain, stages.INTAKE: intake.drain}
    for channel in services.channels:
        delivery = Delivery(
            services.ledger,
            channel,
            directory=services.directory,
            inbox=services.inbox,
            roster=services.decisions.roster,
            bundling=services.bundling,
            notifications=services.notifications,
            subscribed=partial(subscribed, services.ledger) if notifies else None,
        )
        found[stages.deliver(channel.name)] = delivery.drain
    return found


def register(app: Celery, loop: LoopThread, stage_drains: Mapping[str, Drain]) -> None:
    """Register a task for each stage on a Celery app.

    The message is a doorbell and its argument only says which; whatever it is, the task drains the
    stage it is named after.

    Args:
        app: The Celery app of the process.
        loop: Where all coroutines of the process run.
        stage_drains: As `drains` returns them.
    """
    for stage, drain in stage_drains.items():
        # Not shared: Celery would hand the task to every other app of the process.
        made = app.task(name=stages.task(stage), shared=False, ignore_result=True)
        made(_task(loop, stage, drain))


def _task(loop: LoopThread, stage: str, drain: Drain) -> Callable[..., None]:
    def task(*_args: Any) -> None:  # noqa: ANN401 -- whatever a doorbell carries is ignored
        try:
            count = loop.run(drain())
        except LedgerError as error:
            # Nothing is lost: what was leased comes back, and the reconciler rings again.
            log.warning("stage.ledger_unavailable", stage=stage, error=str(error))
            return
        if count:
            log.debug("stage.drained", stage=stage, items=count)

    return task
