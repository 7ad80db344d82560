"""Notifications: a receiver is verified first, and is then told about each decision."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import httpx
import structlog

from signoff.broker import stages
from signoff.broker.decisions import Decisions
from signoff.broker.effects import tell_failure
from signoff.broker.ledger.change import Change, Item
from signoff.broker.monitoring import metrics
from signoff.broker.work import CancelRequests, DoubtCall, NotifyReceiver
from signoff.channels.aap import instances
from signoff.channels.aap.faults import Fault, invalid
from signoff.channels.aap.instances import Instance, Receiver
from signoff.channels.aap.wire import stamp
from signoff.channels.pipeline.outbox import StageWork, dead_letter, post_each, work_of
from signoff.channels.web.signatures import key_of, sign
from signoff.channels.webhooks.addresses import PrivateAddress, Resolve, resolve, why_refused
from signoff.channels.webhooks.posting import Poster, Response
from signoff.core.approvals import programs
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import Conflict, SignoffError

log = structlog.get_logger(__name__)

WINDOW: Final = timedelta(days=7)
"""How long after a decision its notification is retried."""

TIMEOUT: Final = 10.0
"""Seconds for one attempt, the verification included."""

_FIRST: Final = 5
_LONGEST: Final = 6 * 3600
_LONGEST_RETRY_AFTER: Final = 24 * 3600
_MOST: Final = 4096
_EVENTS: Final = uuid.UUID("9d6c3a52-63c9-5b0c-8f0e-6161702d6576")


class Receivers:
    """Posts to receivers; `allow_private` allows those on private networks."""

    def __init__(self, *, allow_private: bool = False, lookup: Resolve = resolve) -> None:
        self._private = allow_private
        self._poster = Poster(timeout=TIMEOUT, lookup=lookup)

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()

    def require_url(self, url: str) -> None:
        """Refuse a URL that is not allowed; see `require_url` of this module."""
        require_url(url, allow_private=self._private)

    async def verify(self, receiver: Receiver, instance: str, now: datetime) -> None:
        """Verify that a receiver expects this registration: it echoes a challenge.

        Raises:
            Fault: It does not echo it, or its address is on a private network.
        """
        challenge = str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))
        message = {
            "id": str(uuid.uuid4()),
            "type": "webhook.verification",
            "registration_id": receiver.registration_id,
            "instance_id": instance,
            "created_at": stamp(now),
            "challenge": challenge,
        }
        try:
            answer = await self._post(receiver, message, now, most=_MOST)
            echoed = answer.status == 200 and json.loads(answer.body) == {"challenge": challenge}
            problem = "" if echoed else f"it answered {answer.status} without the challenge"
        except PrivateAddress as error:
            message_ = "The URL leads into a private network."
            raise invalid(message_, "delivery.url", "invalid_webhook_url") from error
        except (TimeoutError, ValueError, RecursionError, OSError, httpx.HTTPError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            log.warning("aap.not_verified", instance=instance, problem=problem)
            raise Fault(
                422,
                "webhook_verification_failed",
                "The receiver could not be verified.",
                param="delivery",
            )

    async def notify(self, receiver: Receiver, message: dict[str, str], now: datetime) -> Response:
        """Post a notification.

        Raises:
            PrivateAddress, TimeoutError, httpx.HTTPError, OSError: It cannot be posted.
        """
        return await self._post(receiver, message, now)

    async def _post(
        self, receiver: Receiver, message: dict[str, str], now: datetime, *, most: int = 0
    ) -> Response:
        body = json.dumps(message, separators=(",", ":")).encode()
        signed = sign([key_of(receiver.signing_secret) or b""], message["id"], now, body)
        # Receivers of several names may be at one address. Each has to show the certificate of its
        # own name, on a connection of its own.
        headers = {**signed, "Connection": "close"}
        async with asyncio.timeout(TIMEOUT):
            return await self._poster.post(
                receiver.url, body, headers, allow_private=self._private, most=most
            )


def require_url(url: str, *, allow_private: bool) -> None:
    """Refuse a URL that is not allowed.

    Raises:
        Fault: It is not a valid URL, or leads into a private network.
    """
    if " " in url or "#" in url or why_refused(url, allow_private=allow_private):
        raise invalid(
            "The URL of a receiver is https:// and leads to the internet, without user, password "
            "and fragment.",
            "delivery.url",
            "invalid_webhook_url",
        )


class Notifier(StageWork):
    """The stage `aap`: notifies receivers, and marks unreported calls as in doubt."""

    def __init__(self, decisions: Decisions, receivers: Receivers) -> None:
        super().__init__(decisions.ledger, stages.AAP)
        self._decisions = decisions
        self._receivers = receivers

    async def work(self, items: Sequence[Item]) -> None:
        """Do the work of leased items, a few at a time; a failed one does not stop the others."""
        await post_each(self._ledger, items, self._done)

    async def _done(self, item: Item) -> Change:
        try:
            return await self._change(item)
        except (SignoffError, ValueError) as error:
            log.warning("aap.failed", item=item.id, error=str(error))
            problem = str(error)
        except Exception as error:
            # An item that fails must not stop the others.
            log.exception("aap.failed", item=item.id)
            problem = f"{type(error).__name__}: {error}"
        return self._again(item, problem, None, await self._ledger.now())

    async def _change(self, item: Item) -> Change:
        match work_of(item):
            case NotifyReceiver(approval=name):
                return await self._notified(item, await self._ledger.approval(name))
            case DoubtCall(approval=name):
                approval, now = await self._ledger.approval(name), await self._ledger.now()
                return _doubted(item, approval, now)
            case CancelRequests(instance=name):
                if (gone := await instances.load(self._ledger, name)) is not None:
                    await instances.cancel_requests(self._decisions, gone)
                return Change().ack(item)
        return dead_letter(Change(), item, "this version cannot read it")

    async def _notified(self, item: Item, approval: Approval) -> Change:
        program, decision = approval.program, approval.decision
        if program is None or decision is None:
            return Change().ack(item)
        instance = await instances.load(self._ledger, program.instance)
        receiver = instance.receiver if instance is not None else None
        if instance is None or receiver is None or decision.at < receiver.since:
            return Change().ack(item)
        now = await self._ledger.now()
        if not receiver.verified:
            try:
                await self._prove(instance, receiver, now)
            except Fault as fault:
                return self._again(item, fault.message, approval, now)
        message = {
            "id": str(uuid.uuid5(_EVENTS, program.request)),
            "type": "request.resolved",
            "instance_id": program.instance,
            "request_id": program.request,
            "created_at": stamp(decision.at),
        }
        try:
            answer = await self._receivers.notify(receiver, message, now)
        except (PrivateAddress, TimeoutError, OSError, httpx.HTTPError) as error:
            return self._again(item, f"{type(error).__name__}: {error}", approval, now)
        if answer.is_success:
            metrics.record(metrics.DELIVERIES, item.stage, "delivered")
            log.info("aap.notified", approval=approval.id, request=program.request)
            return Change().ack(item)
        at_least = answer.after if answer.status in {429, 503} else 0
        return self._again(item, f"it answered {answer.status}", approval, now, at_least=at_least)

    async def _prove(self, instance: Instance, receiver: Receiver, now: datetime) -> None:
        """Verify a receiver from the command line before its first notification.

        Raises:
            Fault: It is not verified.
        """
        self._receivers.require_url(receiver.url)
        await self._receivers.verify(receiver, instance.id, now)
        proven = receiver.model_copy(update={"verified": True})
        after = instance.model_copy(update={"receiver": proven})
        with suppress(Conflict):
            # Another process has verified it at the same time, or it was replaced.
            await self._ledger.commit(instances.put(Change(), after, was=instance))

    def _again(
        self,
        item: Item,
        problem: str,
        approval: Approval | None,
        now: datetime,
        *,
        at_least: float = 0,
    ) -> Change:
        """Return the change that tries an item again later, or gives it up after a week."""
        after = min(_FIRST * 2.0 ** min(item.attempts - 1, 20), _LONGEST)
        after *= random.uniform(0.8, 1.2)  # noqa: S311 -- no secret
        after = max(after, min(at_least, _LONGEST_RETRY_AFTER))
        at = approval.decision.at if approval is not None and approval.decision else None
        over = now + timedelta(seconds=after) >= at + WINDOW if at is not None else False
        if over or (at is None and after >= _LONGEST):
            metrics.record(metrics.DELIVERIES, item.stage, "refused")
            return dead_letter(Change(), item, problem)
        metrics.record(metrics.DELIVERIES, item.stage, "retry")
        log.warning("aap.retry", item=item.id, problem=problem, after=round(after))
        return Change().retry(item, after=after)


def _doubted(item: Item, approval: Approval, now: datetime) -> Change:
    change = Change().ack(item)
    after, events = programs.doubt(approval, now=now)
    if events:
        tell_failure(change.put(after, was=approval).note(events), after, events[0].why)
        log.error("aap.in_doubt", approval=approval.id, tool=approval.call.name)
    return change
