"""The stage `push`: notifies people's browsers through their push services (RFC 8030)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final
from urllib.parse import urlsplit

import httpx
import structlog

from signoff.broker import stages
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change, Item
from signoff.broker.work import SendPush
from signoff.channels.inbox.settings import ROOT, InboxSettings, PushSettings, page_of
from signoff.channels.inbox.subscriptions import (
    Subscription,
    publish_key,
    subscriptions_of,
    unsubscribe,
)
from signoff.channels.inbox.vapid import authorization, public_key
from signoff.channels.pipeline.outbox import (
    StageWork,
    backoff,
    dead_letter,
    post_each,
    read_each,
    work_of,
)
from signoff.channels.push.encryption import MOST, encrypted
from signoff.channels.webhooks.addresses import PrivateAddress, Resolve, resolve
from signoff.channels.webhooks.posting import Poster
from signoff.channels.words.messages import moment
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import LedgerError
from signoff.core.base.shown_text import shortened
from signoff.core.cards.card import card, unbroken
from signoff.core.directory.people import Person
from signoff.core.routing.quiet_hours import held_until

log = structlog.get_logger(__name__)

_TIMEOUT: Final = 10.0
_MOST_ATTEMPTS: Final = 6
"""They take about five minutes. The card itself has been delivered already."""

_LONGEST_DELAY: Final = 3600.0
"""The longest `Retry-After` that a notification waits for, in seconds; later it is stale."""

_LONGEST_PAUSE: Final = 86400.0
"""The longest `Retry-After` that is kept for a push service, in seconds."""

_LONGEST_TITLE: Final = 120
_LONGEST_TEXT: Final = 400
_MOST_LISTED: Final = 3
_LONGEST_LIFE: Final = timedelta(days=1)
_GONE: Final = frozenset({403, 404, 410})
"""The statuses of a subscription that has ended, or is for another key."""

_AGAIN: Final = frozenset({429, *range(500, 600)})


class _Outcome(Enum):
    TAKEN = auto()
    GONE = auto()
    LATER = auto()
    REFUSED = auto()


class PushSender(StageWork):
    """Sends the notifications.

    Args:
        decisions: The ledger and the people.
        inbox: The page that notifications open.
        settings: The key that signs them.
        lookup: Finds the addresses of push services.
    """

    def __init__(
        self,
        decisions: Decisions,
        inbox: InboxSettings,
        settings: PushSettings,
        *,
        lookup: Resolve = resolve,
    ) -> None:
        super().__init__(decisions.ledger, stages.PUSH)
        self._decisions = decisions
        self._inbox = inbox
        self._settings = settings
        self._poster = Poster(timeout=_TIMEOUT, lookup=lookup)
        self._paused: dict[str, datetime] = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()

    async def announce(self) -> None:
        """Publish the public key for the pages, as soon as the ledger can be reached."""
        while True:
            try:
                return await publish_key(self._ledger, public_key(self._settings))
            except LedgerError as error:
                log.warning("push.key_not_published", error=str(error))
                await asyncio.sleep(_TIMEOUT)

    async def work(self, items: Sequence[Item]) -> None:
        """Send the notifications of leased items, a few at a time, and each separately.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._decisions.roster.refresh()
        await post_each(self._ledger, items, self._done)

    async def _done(self, item: Item) -> Change:
        try:
            return await self._notified(item)
        except LedgerError:
            raise
        except Exception as error:
            log.exception("push.failed", item=item.id)
            return dead_letter(Change(), item, f"{type(error).__name__}: {error}")

    async def _notified(self, item: Item) -> Change:
        """Notify one person, and return the change that records it."""
        work = work_of(item)
        if not isinstance(work, SendPush):
            return dead_letter(Change(), item, "this version cannot read it")
        person, now = self._decisions.directory.get(work.person), await self._ledger.now()
        approvals = await self._waiting(work, person, now) if person is not None else []
        if person is None or not approvals:
            return Change().ack(item)
        found = await subscriptions_of(self._ledger, person, public_key(self._settings))
        to = [one for one in found if not work.left or one.id in work.left]
        content = self._content(approvals, person, again=work.again)
        life = self._life(approvals, now)
        # At once: one push service that does not answer does not delay the other browsers.
        outcomes = await asyncio.gather(
            *(self._post(one, content, approvals[0].id, life, now) for one in to)
        )
        gone = {one.id for one, how in zip(to, outcomes, strict=True) if how is _Outcome.GONE}
        if gone:
            log.info("push.ended", person=person.id, subscriptions=len(gone))
            await unsubscribe(self._ledger, person.id, gone)
        late = [one for one, how in zip(to, outcomes, strict=True) if how is _Outcome.LATER]
        delay = max((self._pause(one, now) for one in late), default=0.0)
        if late and item.attempts < _MOST_ATTEMPTS and delay <= _LONGEST_DELAY:
            body = {**item.body, "left": [one.id for one in late]}
            return Change().retry(item, after=max(backoff(item.attempts), delay), body=body)
        log.info("push.done", item=item.id, person=person.id, taken=outcomes.count(_Outcome.TAKEN))
        return Change().ack(item)

    async def _waiting(self, work: SendPush, person: Person, now: datetime) -> list[Approval]:
        """Return the approvals that wait for a person, without those held by quiet hours."""
        found, _ = await read_each(self._ledger, work.approvals)
        return [
            one
            for one in found.values()
            if isinstance(one, Approval)
            and one.state is State.PENDING
            and person.id in one.approvers
            and held_until(one, [person], now=now) is None
        ]

    def _content(
        self, approvals: Sequence[Approval], person: Person, *, again: bool
    ) -> dict[str, object]:
        """Return what a device shows: titles and amounts, and no other arguments."""
        first = approvals[0]
        zone = self._decisions.directory.zone_of(person.id)
        if len(approvals) > 1:
            lines = [self._title(one) for one in approvals[:_MOST_LISTED]]
            more = len(approvals) - _MOST_LISTED
            lines += [f"and {more} more"] if more > 0 else []
            title, path = f"{len(approvals)} requests wait for you", f"{ROOT}/"
        else:
            until = f"Answer until {moment(first.deadline, zone)}" if first.deadline else ""
            lines = [*self._amounts(first), until]
            title, path = self._title(first), page_of(first.id)
        content: dict[str, object] = {
            "title": f"Reminder: {title}" if again else title,
            "text": shortened("\n".join(filter(None, lines)), _LONGEST_TEXT),
            "path": path,
            "tag": first.id,
            "again": again,
        }
        if sum(len(str(one).encode("utf-8", "replace")) for one in content.values()) > MOST:
            content |= {"title": "A request waits for you", "text": ""}
        return content

    def _title(self, approval: Approval) -> str:
        shape = card(approval, self._decisions.directory)
        return shortened(unbroken(shape.title if shape.titled else shape.call), _LONGEST_TITLE)

    def _amounts(self, approval: Approval) -> list[str]:
        """Return the amounts of money that the policy names and does not hide."""
        names = approval.terms.money if approval.terms is not None else {}
        rows = card(approval, self._decisions.directory).rows
        return [
            f"{row.name}: {unbroken(row.value)}"
            for row in rows
            if row.name in names and not row.hidden
        ]

    @staticmethod
    def _life(approvals: Sequence[Approval], now: datetime) -> int:
        """Return how many seconds a push service keeps a notification for a device that is off."""
        ends = [one.deadline - now for one in approvals if one.deadline is not None]
        return max(int(min([_LONGEST_LIFE, *ends]).total_seconds()), 0)

    def _pause(self, to: Subscription, now: datetime) -> float:
        """Return the seconds until the push service of a subscription takes messages again."""
        until = self._paused.get(urlsplit(to.endpoint).netloc, now)
        return max((until - now).total_seconds(), 0)

    async def _post(
        self,
        to: Subscription,
        content: dict[str, object],
        about: str,
        life: int,
        now: datetime,
    ) -> _Outcome:
        if self._pause(to, now):
            return _Outcome.LATER
        topic = base64.urlsafe_b64encode(hashlib.sha256(about.encode()).digest()[:24]).decode()
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Encoding": "aes128gcm",
            "TTL": str(life),
            "Urgency": "high",
            # A later notification of the same request replaces one that was not fetched yet.
            "Topic": topic,
            "Authorization": authorization(self._settings, to.endpoint, now),
            # Push services of several names may be at one address; see `Receivers`.
            "Connection": "close",
        }
        try:
            async with asyncio.timeout(_TIMEOUT):
                answer = await self._poster.post(
                    to.endpoint,
                    encrypted(content, to),
                    headers,
                    allow_private=self._settings.allow_private,
                )
        except PrivateAddress as error:
            log.warning("push.private_address", error=str(error))
            return _Outcome.GONE
        except (TimeoutError, httpx.HTTPError, OSError) as error:
            log.warning("push.later", error=f"{type(error).__name__}: {error}")
            return _Outcome.LATER
        if answer.is_success:
            return _Outcome.TAKEN
        if answer.status in _GONE:
            return _Outcome.GONE
        log.warning("push.refused", status=answer.status, after=answer.after)
        if answer.status in _AGAIN and answer.after:
            self._paused = {name: until for name, until in self._paused.items() if until > now}
            until = now + timedelta(seconds=min(answer.after, _LONGEST_PAUSE))
            self._paused[urlsplit(to.endpoint).netloc] = until
        return _Outcome.LATER if answer.status in _AGAIN else _Outcome.REFUSED
