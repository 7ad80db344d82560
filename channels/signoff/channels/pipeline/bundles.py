"""Bundles: many cards for one person or place within minutes become one message that lists them.

Each approval of a bundle stays separate: it is delivered or refused with the bundle, and decided
on its page. Neither a bundle nor an answer to one decides anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import structlog

from signoff.broker.directory.roster import Roster
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.throttle import Rule, Throttle, hashed
from signoff.broker.work import (
    BundleKind,
    BundleWork,
    Bundling,
    Listed,
    SendBundle,
    SendCard,
    SendReminder,
)
from signoff.channels.pipeline.outbox import legible, read_each, work_of
from signoff.channels.pipeline.port import (
    Channel,
    Delivered,
    Entry,
    Kind,
    Message,
    Pages,
    Refused,
    Result,
    Retry,
)
from signoff.channels.pipeline.pushes import Subscribed, notify
from signoff.channels.pipeline.reply_tokens import GRACE, Holder, Role, issue_token
from signoff.channels.pipeline.results import (
    deliver_each,
    put_back,
    refuse,
    tried_again,
    waits_too_long,
)
from signoff.channels.pipeline.route import ask_elsewhere
from signoff.channels.words import phrases
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, Asked, Shown, State
from signoff.core.base.errors import (
    ApprovalNotFound,
    Conflict,
    LeaseLost,
    LedgerError,
    RecordUnreadable,
)
from signoff.core.cards.card import Card, card
from signoff.core.routing.quiet_hours import is_urgent, least_left

log = structlog.get_logger(__name__)

MOST: Final = 30
"""How many approvals one message lists. Each has a block of its own in Slack, which takes 50."""

KEPT: Final = timedelta(days=60) + GRACE
"""How long the list of a bundle is kept."""

_ID: Final = "bn_"


class BundleRule(NamedTuple):
    """When several cards become one message.

    Attributes:
        over: How many single cards a person or place gets within that time; 0 for any number.
        within: The time.
    """

    over: int
    within: timedelta


def bundle_id(channel: str, items: Collection[str]) -> str:
    """Return the id of the bundle of some deliveries by a channel: ``bn_`` and 16 letters."""
    text = "\0".join([channel, *sorted(items)])
    return _ID + base64.b32encode(hashlib.sha256(text.encode()).digest()[:10]).decode().lower()


class BundleRecord(NamedTuple):
    """The record of a bundle: who got it, where, and what it lists."""

    person: str
    channel: str
    address: str
    listed: tuple[Listed, ...]


async def find_bundle(ledger: Ledger, bundle: str) -> BundleRecord | None:
    """Return the record of a bundle, None if there is none or it is gone.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = await ledger.raw(_key(bundle))
    if found is None:
        return None
    kept = json.loads(found[1])
    listed = tuple(
        Listed(approval=one["approval"], level_key=one["turn"]) for one in kept["listed"]
    )
    return BundleRecord(kept["person"], kept["channel"], kept["address"], listed)


def _key(bundle: str) -> str:
    return f"bundle:{bundle}"


Ready = tuple[Item, Message, Approval]
"""A delivery that could go out now, its message, and what it is about."""


@dataclass(slots=True)
class Gathered:
    """The deliveries that do not go out as single messages now.

    Attributes:
        later: Seconds until they are sent with others, by the ids of their items.
        gone: The ids of items that are part of a bundle now.
    """

    later: dict[str, float] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def put_back(self, item: Item, _approval: Approval, _now: datetime) -> Change:
        """Return the change that lets an item wait for others."""
        body = {**item.body, "bundling": Bundling.WAITS.value}
        return Change().retry(item, after=self.later[item.id], counted=False, body=body)


class Bundler:
    """Makes bundles of the deliveries of one channel.

    Args:
        ledger: The ledger, which counts and keeps the deliveries.
        channel: The name of the channel.
        pages: The pages that bundles link to; without them nothing is bundled.
        bundling: When; None for never.
    """

    def __init__(
        self, ledger: Ledger, channel: str, pages: Pages | None, bundling: BundleRule | None
    ) -> None:
        self._ledger = ledger
        self._channel = channel
        self._pages = pages
        self._bundling = bundling
        self._throttle = Throttle(ledger.store)

    async def gather(self, ready: Sequence[Ready], *, now: datetime) -> Gathered:
        """Return which deliveries wait for others, and put those that have waited into bundles.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        found, bundling = Gathered(), self._bundling
        if bundling is None or not bundling.over or self._pages is None:
            return found
        groups: defaultdict[tuple[str, BundleKind], list[Ready]] = defaultdict(list)
        for item, message, approval in ready:
            kind = _kind_of(item)
            linked = kind is not None and self._pages.link_to(approval.id)
            if kind is not None and linked and not is_urgent(approval):
                groups[message.person, kind].append((item, message, approval))
        for to, group in groups.items():
            await self._gather(found, to, group, bundling, now=now)
        return found

    async def _gather(
        self,
        found: Gathered,
        to: tuple[str, BundleKind],
        group: list[Ready],
        bundling: BundleRule,
        *,
        now: datetime,
    ) -> None:
        person, kind = to
        counted = f"{self._channel}:{kind}:{hashed(person)}"
        bundles = Rule(f"rate:bundles:{counted}", 1, bundling.within)
        have_waited = any(_decided(item) is Bundling.WAITS for item, _, _ in group)
        if not have_waited and len(group) <= bundling.over:
            alone = Rule(f"rate:cards:{counted}", bundling.over, bundling.within)
            for one in group:
                if (wait := await self._throttle.pause(alone)) and _may_wait(one, now, wait):
                    found.later[one[0].id] = wait
            return
        wait = await self._throttle.pause(bundles)
        if wait and not have_waited:
            later = [one for one in group if _may_wait(one, now, wait)]
            found.later |= dict.fromkeys((item.id for item, _, _ in later), wait)
            return
        for start in range(0, len(group), MOST):
            part = group[start : start + MOST]
            if len(part) > 1 and await self._bundled(person, kind, part):
                found.gone |= {item.id for item, _, _ in part}

    async def _bundled(self, person: str, kind: BundleKind, group: Sequence[Ready]) -> bool:
        """Put deliveries into one bundle, in one commit; return whether they are done."""
        bundle = bundle_id(self._channel, [item.id for item, _, _ in group])
        listed = tuple(Listed(approval=one.id, level_key=one.level_key) for _, _, one in group)
        address = group[0][1].address
        change = Change()
        for item, _, _ in group:
            change.ack(item)
        known = {"person": person, "channel": self._channel, "address": address}
        kept = {**known, "listed": [one.model_dump() for one in listed]}
        change.put_raw(_key(bundle), json.dumps(kept), ttl=KEPT)
        holder = Holder(bundle, person, self._channel, Role.BUNDLE)
        token = issue_token(change, holder, within=KEPT - GRACE)
        change.send(SendBundle(**known, bundle=bundle, purpose=kind, listed=listed, token=token))
        try:
            await self._ledger.commit(change)
        except LeaseLost as error:
            # Another process has some of them; the others come back when their lease ends.
            log.info("bundle.lease_lost", bundle=bundle, error=str(error))
        except Conflict as error:
            log.warning("bundle.not_made", bundle=bundle, error=str(error))
            return False
        else:
            log.info("bundle.made", bundle=bundle, person=person, listed=len(listed))
        return True


def _kind_of(item: Item) -> BundleKind | None:
    """Return the kind of bundle that a delivery fits into, None if it goes alone.

    A delivery that was tried before may have arrived as a single message.
    """
    if item.attempts > 1 or _decided(item) is Bundling.ALONE:
        return None
    match work_of(item):
        case SendCard():
            return BundleKind.CARDS
        case SendReminder():
            return BundleKind.REMINDERS
    return None


def _decided(item: Item) -> Bundling:
    work = work_of(item)
    return work.bundling if isinstance(work, SendCard | SendReminder) else Bundling.UNDECIDED


def _may_wait(one: Ready, now: datetime, seconds: float) -> bool:
    """Return whether enough time is left for an answer after a card has waited for others."""
    approval = one[2]
    later = now + timedelta(seconds=seconds)
    return approval.deadline is None or approval.deadline - later >= least_left(approval)


class BundleDelivery:
    """Delivers bundles through one channel.

    Args:
        ledger: The ledger.
        channel: The channel.
        roster: The people. The caller refreshes it.
        inbox: The pages that bundles link to.
        subscribed: Returns who is notified on a device too.
    """

    def __init__(
        self,
        ledger: Ledger,
        channel: Channel,
        *,
        roster: Roster,
        inbox: Pages | None,
        subscribed: Subscribed,
    ) -> None:
        self._ledger = ledger
        self._channel = channel
        self._roster = roster
        self._inbox = inbox
        self._subscribed = subscribed

    async def work(self, items: Sequence[Item]) -> None:
        """Deliver leased bundles, each in its own commit; a failed one does not stop the others.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        now = await self._ledger.now()
        messages: dict[str, tuple[Message, Collection[str]]] = {}
        for item in items:
            try:
                made = await self._message(item, now)
            except LedgerError:
                raise
            except Exception as error:
                log.exception("bundle.not_rendered", item=item.id)
                problem = f"{type(error).__name__}: {error}"
                await self._committed(item, Retry(0, problem, unsure=False))
                continue
            if made is None:
                await self._acknowledged(item)
            else:
                messages[item.id] = made
        kept = _latest([item for item in items if item.id in messages])
        for item in items:
            if item.id in messages and item.id not in kept:
                del messages[item.id]
                await self._acknowledged(item)
        for item in items:
            if item.id in messages:
                message, shown = messages[item.id]
                (result,) = await deliver_each(self._channel, [message])
                await self._committed(item, result, shown)

    async def _message(self, item: Item, now: datetime) -> tuple[Message, Collection[str]] | None:
        """Return the message and the ids of the approvals that it shows as waiting.

        Return None if no listed approval waits for the person any more.
        """
        work = _of(item)
        if isinstance(work, SendBundle):
            address, listed = work.address, work.listed
        else:
            known = await find_bundle(self._ledger, work.bundle)
            if known is None:
                return None
            address, listed = known.address, known.listed
        found = [(one, await self._read(one.approval)) for one in listed]
        approvals = [(one, approval) for one, approval in found if approval is not None]
        waiting = [approval for one, approval in approvals if self._waits(work, one, approval)]
        shown = [approval for _, approval in approvals]
        message = self._about(work, address, now)
        if not isinstance(work, SendBundle):
            receipt = next(filter(None, (_receipt(work, one) for one in shown)), "")
            if not receipt:
                return None
            message = replace(message, thread=receipt)
        elif work.purpose is BundleKind.ANSWER or self._is_wanted(work, waiting):
            shown = waiting
            message = replace(message, token=work.token, reply_to=work.reply_to)
        else:
            return None
        entries = tuple(self._entry(one, waits=one in waiting) for one in shown)
        kind = work.purpose if isinstance(work, SendBundle) else BundleKind.CARDS
        said = phrases.bundle(kind, waiting=len(waiting), listed=len(shown))
        unsure = item.attempts - 1 > work.failed
        message = replace(
            message,
            id=item.id,
            headline=said.headline,
            text=said.text,
            entries=entries,
            attempt=item.attempts,
            unsure=unsure,
        )
        return message, [one.id for one in waiting]

    async def _read(self, approval_id: str) -> Approval | None:
        """Return an approval, None if it is missing or unreadable: the others are still listed.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        try:
            found, _ = await read_each(self._ledger, [approval_id])
            return legible(found[approval_id])
        except (ApprovalNotFound, RecordUnreadable) as error:
            log.warning("bundle.unreadable", approval=approval_id, error=str(error))
            return None

    def _about(self, work: BundleWork, address: str, now: datetime) -> Message:
        person = self._roster.directory.get(work.person)
        return Message(
            id="",
            kind=Kind.BUNDLE,
            card=blank(work.bundle),
            person=work.person,
            name=person.shown if person else work.person,
            address=address,
            at=now,
            zone=self._roster.directory.zone_of(work.person),
        )

    def _waits(self, work: BundleWork, listed: Listed, approval: Approval) -> bool:
        """Return whether an approval waits for the recipient of the bundle."""
        asked = _listed_card(work, listed, approval)
        if approval.state is not State.PENDING or asked is None:
            return False
        return asked.is_for(approval.approvers, approval.level_key)

    def _is_wanted(self, work: BundleWork, waiting: Sequence[Approval]) -> bool:
        """Return whether a bundle is worth an attempt for an approval; see `is_wanted`."""
        cards = [(one, _asked(work, one)) for one in waiting]
        return any(asked and deliveries.is_wanted(one, asked) for one, asked in cards)

    async def _waiting(self, work: SendBundle) -> list[Approval]:
        """Return the listed approvals that wait for the recipient."""
        found = [(one, await self._read(one.approval)) for one in work.listed]
        return [one for listed, one in found if one and self._waits(work, listed, one)]

    def _entry(self, approval: Approval, *, waits: bool) -> Entry:
        shape = card(approval, self._roster.directory)
        ended = approval.state is not State.PENDING
        outcome = approval.outcome(self._roster.directory) if ended else "went on to others"
        return Entry(
            title=shape.title,
            # A title from the policy names the requester.
            requester="" if shape.titled else shape.requester,
            deadline=approval.deadline,
            link=self._inbox.link_to(approval.id) if self._inbox is not None else "",
            outcome="" if waits else outcome,
        )

    async def _committed(self, item: Item, result: Result, shown: Collection[str] = ()) -> None:
        """Record the result of a bundle for all of its approvals, in one commit.

        Args:
            item: The bundle.
            result: The result.
            shown: The ids of the approvals that it shows as waiting. One that has ended since is
                recorded too, so that the bundle is updated.
        """
        work = _of(item)
        about = {"item": item.id, "channel": work.channel, "person": work.person}
        cards = work if isinstance(work, SendBundle) and work.purpose is BundleKind.CARDS else None
        change = Change().ack(item)
        if isinstance(result, Retry):
            late: Sequence[Approval] = ()
            if cards is not None:
                waiting = await self._waiting(cards)
                if result.counted and all(_problem(cards, one) for one in waiting):
                    # It was given up before for each of them.
                    await self._commit(put_back(item, result, **about))
                    return
                deadlines = [one.deadline for one in waiting if one.deadline is not None]
                item, too_long = waits_too_long(
                    item, result, min(deadlines, default=None), now=await self._ledger.now()
                )
                late = waiting if too_long else ()
            again = tried_again(item, result, **about)
            if isinstance(again, Change):
                for one in late:
                    ask_elsewhere(again, one, work.person)
                await self._commit(again)
                return
            if cards is not None:
                # As with a single card, the channel may work again in time.
                change = put_back(item, result, **about)
            result = again
        done = result
        if isinstance(done, Refused):
            log.warning("bundle.refused", **about, reason=done.reason)
        else:
            log.info("bundle.delivered", **about)
            notify(change, item, await self._subscribed((work.person,)))
        if cards is None:
            await self._commit(change)
            return

        async def attempt() -> None:
            now = await self._ledger.now()
            after = change.copy()
            for listed in cards.listed:
                approval = await self._read(listed.approval)
                if approval is None:
                    continue
                was_shown = listed.approval in shown and _listed_card(cards, listed, approval)
                if was_shown or self._waits(cards, listed, approval):
                    _note(after, approval, cards, done, now)
            await self._ledger.commit(after)

        try:
            await self._ledger.decide_again(attempt)
        except LeaseLost:
            log.info("outbox.lease_lost", stage=item.stage, item=item.id)
        except Conflict:
            log.warning("outbox.disturbed", stage=item.stage, item=item.id)

    async def _acknowledged(self, item: Item) -> None:
        await self._commit(Change().ack(item))

    async def _commit(self, change: Change) -> None:
        try:
            await self._ledger.commit(change)
        except LeaseLost as error:
            log.info("outbox.lease_lost", error=str(error))


def _note(
    change: Change, approval: Approval, work: SendBundle, result: Delivered | Refused, now: datetime
) -> None:
    """Add the result of a bundle for one of its approvals to a change."""
    if isinstance(result, Refused):
        refuse(change, approval, work.person, channel=work.channel, reason=result.reason, now=now)
        return
    after, events = deliveries.delivered(
        approval,
        work.person,
        work.channel,
        result.receipt,
        now=now,
        shown=Shown.CUT,
        bundle=work.bundle,
    )
    change.put(after, was=approval).note(events)


def blank(bundle: str) -> Card:
    """Return the empty card of a message that is about several approvals."""
    return Card(
        approval=bundle,
        title="",
        app="",
        agent="",
        tool="",
        rows=(),
        hint="",
        requester="",
        policy="",
        deadline=None,
        digest="",
    )


def _of(item: Item) -> BundleWork:
    work = item.work
    if not isinstance(work, BundleWork):
        raise TypeError(f"{work.work} is no bundle")
    return work


def _asked(work: BundleWork, approval: Approval) -> Asked | None:
    mine = (one for one in approval.asked if (one.key, one.channel) == (work.person, work.channel))
    return next(mine, None)


def _listed_card(work: BundleWork, listed: Listed, approval: Approval) -> Asked | None:
    """Return the card that a bundle lists, None if the person has none at that level any more."""
    asked = _asked(work, approval)
    return asked if asked is not None and asked.level_key == listed.level_key else None


def _problem(work: BundleWork, approval: Approval) -> str:
    """Return why the card could not be delivered, "" if it was not given up."""
    asked = _asked(work, approval)
    return asked.problem if asked is not None else ""


def _receipt(work: BundleWork, approval: Approval) -> str:
    """Return the receipt of the bundle in one of its approvals, "" if it has another one."""
    asked = _asked(work, approval)
    return asked.receipt if asked is not None and asked.bundle == work.bundle else ""


def _latest(items: Sequence[Item]) -> frozenset[str]:
    """Return the ids of the items to do: of several updates of one bundle, only the last."""
    last: dict[tuple[str, ...], str] = {}
    for item in items:
        work = _of(item)
        once = (work.bundle,) if not isinstance(work, SendBundle) else (work.bundle, item.id)
        last[once] = item.id
    return frozenset(last.values())
