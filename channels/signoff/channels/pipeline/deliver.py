"""The stages `deliver.<channel>`: hand a batch to the channel, then record each result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

import structlog

from signoff.broker import stages
from signoff.broker.directory.roster import Roster
from signoff.broker.effects import rewrite
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import tracing
from signoff.broker.similar import count_similar
from signoff.broker.work import (
    BundleWork,
    CloseCard,
    CloseLevel,
    Closing,
    DeliveryWork,
    Notice,
    SendCard,
    SendReminder,
    SendStatus,
    UpdateBundle,
    UpdateCard,
)
from signoff.channels.pipeline.bundles import BundleDelivery, Bundler, BundleRule
from signoff.channels.pipeline.compose import (
    Composer,
    asks_still,
    closing_of,
    delivery_of,
    has_lost_seat,
)
from signoff.channels.pipeline.informing import (
    Notifications,
    addressee,
    fall_back_to_mail,
    is_reported,
    waits_for_result,
)
from signoff.channels.pipeline.outbox import (
    BATCH,
    MOST_ATTEMPTS,
    Build,
    StageWork,
    approval_of,
    commit_each,
    dead_letter,
    legible,
    read_each,
    work_of,
)
from signoff.channels.pipeline.port import (
    Bundles,
    Channel,
    Delivered,
    Kind,
    Message,
    Pages,
    Refused,
    Result,
    Retry,
    Rewriting,
)
from signoff.channels.pipeline.pushes import Subscribed, nobody, notify, recipients
from signoff.channels.pipeline.quiet_hours import delivery_held_until, is_needless_reminder, pause
from signoff.channels.pipeline.results import (
    MOST_ATTEMPTS_OF_A_DAY,
    deliver_each,
    put_back,
    refuse,
    tried_again,
    waits_too_long,
)
from signoff.channels.pipeline.route import ask_elsewhere
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, Asked, Shown, State
from signoff.core.directory.people import Directory
from signoff.core.routing.targets import EMAIL, address_of

log = structlog.get_logger(__name__)

_MOST_UNRECORDED: Final = 10 * BATCH

PATIENCE: Final = 4
"""How often an outcome waits for its card, which may be under way, before it is dropped."""


class Delivery(StageWork):
    """Delivers through one channel.

    Args:
        ledger: The ledger.
        channel: The channel.
        directory: The people.
        inbox: The page that messages link to, if there is one.
        roster: The people with their absences, and what is frozen; by default a new one.
        bundling: When several cards become one message; None for never.
        notifications: How people who do not decide are told.
        subscribed: Returns who is notified on a device too; None for nobody.
    """

    def __init__(
        self,
        ledger: Ledger,
        channel: Channel,
        *,
        directory: Directory,
        inbox: Pages | None = None,
        roster: Roster | None = None,
        bundling: BundleRule | None = None,
        notifications: Notifications | None = None,
        subscribed: Subscribed | None = None,
    ) -> None:
        super().__init__(ledger, stages.deliver(channel.name))
        self._channel = channel
        self._roster = roster or Roster(ledger, directory)
        self._rewrites = isinstance(channel, Rewriting) and channel.rewrites
        can_list = isinstance(channel, Bundles) and channel.bundles
        pages = inbox if bundling is not None and can_list else None
        self._bundler = Bundler(ledger, channel.name, pages, bundling)
        self._subscribed = subscribed or nobody
        self._bundles = BundleDelivery(
            ledger, channel, roster=self._roster, inbox=inbox, subscribed=self._subscribed
        )
        self._notifications = notifications or Notifications()
        self._composer = Composer(self._roster, inbox, rewrites=self._rewrites)
        self._unrecorded: dict[str, tuple[Message, Delivered]] = {}

    @property
    def name(self) -> str:
        """The name of the channel."""
        return self._channel.name

    @property
    def _directory(self) -> Directory:
        """The people with their present absences, and what is frozen."""
        return self._roster.directory

    async def work(self, items: Sequence[Item]) -> None:
        """Deliver leased items, each in its own commit.

        If a process dies in between, some of them are delivered again: the same messages, with
        the same ids. If only the commit fails, because Redis refuses it or is away, the process
        remembers what it has delivered, and commits it the next time that it gets the item.
        """
        lists = [item for item in items if isinstance(work_of(item), BundleWork)]
        if lists:
            await self._roster.refresh()
            await self._bundles.work(lists)
            items = [item for item in items if not isinstance(work_of(item), BundleWork)]
        if not items:
            return
        # In one round trip.
        _, (found, now) = await asyncio.gather(
            self._roster.refresh(),
            read_each(self._ledger, [approval_of(item) for item in items]),
        )
        approvals = {item.id: found[approval_of(item)] for item in items}
        messages: dict[str, Message] = {}
        unsent: dict[str, Build] = dict.fromkeys(_superseded_updates(items), _acknowledge)
        for item in items:
            if item.id in unsent:
                continue
            try:
                planned = self._plan(item, legible(approvals[item.id]), now)
            except Exception as error:  # noqa: BLE001 -- one bad card must not stop the others
                unsent[item.id] = partial(_fail, error)
                continue
            if isinstance(planned, Message):
                messages[item.id] = planned
            else:
                unsent[item.id] = planned
        await self._recall(messages, approvals)
        ready = [
            (item, messages[item.id], legible(approvals[item.id]))
            for item in items
            if item.id in messages
        ]
        gathered = await self._bundler.gather(ready, now=now)
        unsent |= dict.fromkeys(gathered.later, gathered.put_back)
        for item_id in (*gathered.later, *gathered.gone):
            del messages[item_id]
        items = [item for item in items if item.id not in gathered.gone]
        results = await self._deliver(messages, approvals)
        notified = await self._notified(items, results, approvals)

        def build(item: Item, approval: Approval, now: datetime) -> Change:
            if item.id in unsent:
                return unsent[item.id](item, approval, now)
            change = self._record(item, approval, results[item.id], messages[item.id], now)
            return notify(change, item, notified.get(item.id, ()))

        await commit_each(self._ledger, items, build, _give_up)
        for name in results:
            self._unrecorded.pop(name, None)

    def _plan(self, item: Item, approval: Approval, now: datetime) -> Message | Build:
        """Return the message that an item delivers now, or what to do with the item without one."""
        work = delivery_of(item)
        wait = waits_for_result(work, approval, self._notifications, now=now).total_seconds()
        if wait:
            return partial(_put_back, wait)
        asked = self._recipient(work, approval)
        message = self._composer.compose(item, asked, approval, now) if asked is not None else None
        if asked is None or message is None:
            return self._not_sent
        until = self._held_until(item, asked, approval, now)
        return message if until is None else partial(self._hold, until)

    async def _deliver(
        self, messages: Mapping[str, Message], approvals: Mapping[str, Approval | Exception]
    ) -> dict[str, Result]:
        """Return the results of delivering messages; what is already delivered is not repeated."""
        results: dict[str, Result] = {
            name: known[1]
            for name, message in messages.items()
            if (known := self._unrecorded.pop(name, None)) and _is_same(known[0], message)
        }
        unsent = [name for name in messages if name not in results]
        about = [legible(approvals[name]) for name in unsent]
        with tracing.spans("deliver", about, channel=self._channel.name):
            came = await deliver_each(self._channel, [messages[name] for name in unsent])
        if any(one.kind is Kind.UPDATE for one in messages.values()):
            # For `_settled`: a thaw may have changed the card while it was written.
            await self._roster.refresh()
        results.update(zip(unsent, came, strict=True))
        if len(self._unrecorded) > _MOST_UNRECORDED:
            self._unrecorded.clear()
        for name, result in results.items():
            if isinstance(result, Delivered):
                self._unrecorded[name] = messages[name], result
        return results

    async def _recall(
        self, messages: dict[str, Message], approvals: Mapping[str, Approval | Exception]
    ) -> None:
        """Add the earlier decisions of their readers about similar requests to open cards."""
        names = [name for name, one in messages.items() if one.kind in {Kind.CARD, Kind.UPDATE}]
        wanted = [(messages[name].person, legible(approvals[name])) for name in names]
        for name, found in zip(names, await count_similar(self._ledger, wanted), strict=True):
            if found.decided:
                shape = messages[name].card.model_copy(update={"similar": found.words})
                messages[name] = replace(messages[name], card=shape)

    async def _notified(
        self,
        items: Sequence[Item],
        results: Mapping[str, Result],
        approvals: Mapping[str, Approval | Exception],
    ) -> dict[str, frozenset[str]]:
        """Return for each delivery which of its recipients are notified on a device."""
        asks: dict[str, Sequence[str]] = {}
        for item in items:
            if not isinstance(results.get(item.id), Delivered):
                continue
            work, approval = delivery_of(item), legible(approvals[item.id])
            wants_answer = isinstance(work, SendCard | SendReminder)
            if wants_answer and (asked := self._asked(work, approval)) is not None:
                asks[item.id] = recipients(approval, asked.person)
        everybody = {one for people in asks.values() for one in people}
        wanted = await self._subscribed(everybody) if everybody else frozenset[str]()
        return {name: wanted.intersection(people) for name, people in asks.items()}

    def _recipient(self, work: DeliveryWork, approval: Approval) -> Asked | None:
        """Return the recipient of a delivery, None for nobody; some notices name the address."""
        asked = self._asked(work, approval)
        if isinstance(work, Notice) and work.address:
            asked = asked or Asked(person="", channel=self._channel.name, address="")
            asked = asked.model_copy(update={"address": work.address})
        return asked

    def _asked(self, work: DeliveryWork, approval: Approval) -> Asked | None:
        if isinstance(work, SendStatus):
            return addressee(work, self._directory)
        for asked in approval.asked:
            if (asked.key, asked.channel) == (work.person, self._channel.name):
                return asked
        known = self._directory.get(work.person)
        if known is None or not isinstance(work, Notice) or work.address:
            return None
        # People who were not asked are told at their address in the directory, never at the
        # sender of a mail.
        name = self._channel.name
        return Asked(person=known.id, channel=name, address=address_of(known, name))

    def _held_until(
        self, item: Item, asked: Asked, approval: Approval, now: datetime
    ) -> datetime | None:
        """Return until when a message waits for its recipient's working hours."""
        work = delivery_of(item)
        if item.attempts - 1 > work.failed:
            # It may be delivered already: it is finished now, and not hours later.
            return None
        return delivery_held_until(
            work, approval, asked, self._directory, now=now, rewrites=self._rewrites
        )

    def _hold(self, until: datetime, item: Item, approval: Approval, now: datetime) -> Change:
        """Put a message back until its recipient works; the audit notes a card once."""
        work = delivery_of(item)
        asked = self._asked(work, approval)
        if asked is None or is_needless_reminder(work, approval, asked, until):
            log.info("delivery.spared", item=item.id, approval=approval.id)
            return Change().ack(item)
        change, body = Change(), None
        if isinstance(work, SendCard) and not work.held:
            log.info("delivery.held", item=item.id, approval=approval.id, until=until.isoformat())
            change.note([deliveries.held(approval, work.person, work.channel, until, now=now)])
            body = {**item.body, "held": True}
        return change.retry(item, after=pause(until, now), counted=False, body=body)

    def _not_sent(self, item: Item, approval: Approval, _now: datetime) -> Change:
        work = delivery_of(item)
        asked = self._asked(work, approval)
        if asked is not None and asked.bundle and isinstance(work, CloseCard | CloseLevel):
            return self._close_in_bundle(item, work, asked)
        lost_seat = has_lost_seat(work, approval) and not self._rewrites
        told = lost_seat or is_reported(work, approval)
        wait = isinstance(work, Closing) and asked is not None and not (asked.problem or told)
        if wait and item.attempts <= PATIENCE:
            # Its card may be under way; the recipient should get both.
            return Change().retry(item, after=float(2 ** (item.attempts - 1)))
        log.info("delivery.dropped", item=item.id, approval=approval.id)
        return Change().ack(item)

    def _close_in_bundle(self, item: Item, work: DeliveryWork, asked: Asked) -> Change:
        """Update the bundle that lists an approval with the outcome."""
        change = Change().ack(item)
        if self._rewrites:
            update = UpdateBundle(
                channel=work.channel, person=work.person, bundle=asked.bundle, cause=item.id
            )
            change.send(update)
        return change

    def _record(
        self, item: Item, approval: Approval, result: Result, sent: Message, now: datetime
    ) -> Change:
        work = delivery_of(item)
        about = self._about(item, work)
        asked = self._asked(work, approval) if isinstance(work, SendCard | UpdateCard) else None
        if (
            isinstance(work, SendCard)
            and sent.kind is Kind.CARD
            # The result of an earlier level's card is not that of the present card.
            and asked is not None
            and asked.level_key == work.level_key
        ):
            return self._record_card(item, work, approval, asked, result, now=now)
        if isinstance(result, Retry):
            again = tried_again(item, result, _most_attempts(work), **about)
            if isinstance(again, Change):
                return again
            result = again
        change = Change().ack(item)
        if isinstance(work, SendCard) and sent.kind is not Kind.CARD:
            return self._record_closed(change, work, approval, result, now)
        name, person = self._channel.name, work.person
        if isinstance(result, Delivered):
            log.info("delivery.delivered", **about)
            if isinstance(work, UpdateCard):
                if asked is not None and result.shown not in {Shown.UNKNOWN, asked.shown}:
                    change.put(
                        deliveries.rewritten(approval, person, name, shown=result.shown),
                        was=approval,
                    )
                self._settled(change, item, work, approval, sent)
            elif isinstance(work, SendStatus):
                change.note([deliveries.informed(approval, person, name, work.milestone, now=now)])
            elif result.copy:
                change.put(deliveries.rewritten(approval, person, name, result.copy), was=approval)
            return change
        log.warning("delivery.refused", **about, reason=result.reason)
        if isinstance(work, SendStatus):
            _not_informed(change, approval, work, result.reason, now=now)
        return change

    def _about(self, item: Item, work: DeliveryWork) -> dict[str, str]:
        """Return the fields of a delivery for the log."""
        names = {"channel": self._channel.name, "person": work.person}
        return {"item": item.id, "approval": work.approval, **names}

    def _record_card(
        self,
        item: Item,
        work: SendCard,
        approval: Approval,
        asked: Asked,
        result: Result,
        *,
        now: datetime,
    ) -> Change:
        """Record the result of the present card of a person or place."""
        name, about = self._channel.name, self._about(item, work)
        change = Change().ack(item)
        if isinstance(result, Retry):
            if asked.problem and result.counted:
                return put_back(item, result, **about)
            item, too_long = waits_too_long(item, result, approval.deadline, now=now)
            again = tried_again(item, result, **about)
            if isinstance(again, Change):
                return ask_elsewhere(again, approval, work.person) if too_long else again
            # Others are asked now. If there are none, the channel may work again in time.
            change, result = put_back(item, result, **about), again
        if isinstance(result, Refused):
            log.warning("delivery.refused", **about, reason=result.reason)
            refuse(change, approval, work.person, channel=name, reason=result.reason, now=now)
            return change
        log.info("delivery.delivered", **about)
        after, events = deliveries.delivered(
            approval,
            work.person,
            name,
            result.receipt,
            now=now,
            copy_state=result.copy,
            shown=result.shown,
        )
        change.put(after, was=approval).note(events)
        if asked.problem and not asks_still(work, approval, asked):
            # Its closing did not wait for a card that was given up.
            change.send(closing_of(work, approval))
        return change

    def _record_closed(
        self,
        change: Change,
        work: SendCard,
        approval: Approval,
        result: Delivered | Refused,
        now: datetime,
    ) -> Change:
        """Record that a card has been closed that an earlier attempt had delivered.

        The receipt of a mail is that of the outcome, and is not recorded: there is no card.
        """
        if not (isinstance(result, Delivered) and result.receipt and self._rewrites):
            return change
        after_it, events = deliveries.delivered(
            approval, work.person, work.channel, result.receipt, now=now, copy_state=result.copy
        )
        return change.put(after_it, was=approval).note(events)

    def _settled(
        self, change: Change, item: Item, work: UpdateCard, approval: Approval, sent: Message
    ) -> None:
        """Write a card once more if the approval changed while the card was written.

        Another process may have written it meanwhile, and Slack promises no order.
        """
        card_of = {"channel": work.channel, "approval": work.approval, "person": work.person}
        if approval.state is not State.PENDING:
            change.send(CloseCard(**card_of, corrects=item.id))
            return
        asked = self._asked(work, approval)
        again = (
            self._composer.compose(item, asked, approval, sent.at) if asked is not None else None
        )
        if asked is None or again is None:
            change.send(CloseLevel(**card_of, level_key=work.level_key, corrects=item.id))
        elif again.card != sent.card.model_copy(update={"similar": ""}):
            # The sentence about similar requests is not compared: `_recall` adds it later.
            rewrite(change, approval, asked)


def _is_same(sent: Message, message: Message) -> bool:
    """Return whether a message says what was sent by an earlier attempt of the same item."""
    # The sentence about similar requests counts others, which are decided meanwhile.
    shape = message.card.model_copy(update={"similar": sent.card.similar})
    again = replace(message, at=sent.at, attempt=sent.attempt, unsure=sent.unsure, card=shape)
    return message.attempt > sent.attempt and sent == again


def _superseded_updates(items: Sequence[Item]) -> frozenset[str]:
    """Return the ids of the updates that a later update of the same card replaces."""
    works = {item.id: work_of(item) for item in items}
    updates = {name: work for name, work in works.items() if isinstance(work, UpdateCard)}
    kept = {(one.approval, one.person, one.level_key): name for name, one in updates.items()}
    return frozenset(updates) - frozenset(kept.values())


def _acknowledge(item: Item, _approval: Approval, _now: datetime) -> Change:
    return Change().ack(item)


def _put_back(after: float, item: Item, _approval: Approval, _now: datetime) -> Change:
    return Change().retry(item, after=after, counted=False)


def _fail(error: Exception, _item: Item, _approval: Approval, _now: datetime) -> Change:
    raise error


def _most_attempts(work: DeliveryWork) -> int:
    """Return how often a message that is not an open card is attempted.

    Nobody else sends it. But a status goes by mail instead, and many old reminders would come
    together.
    """
    has_other_way = isinstance(work, SendStatus) and work.channel != EMAIL
    if has_other_way or isinstance(work, SendReminder):
        return MOST_ATTEMPTS
    return MOST_ATTEMPTS_OF_A_DAY


def _not_informed(
    change: Change, approval: Approval, work: SendStatus, reason: str, *, now: datetime
) -> None:
    """Add to a change that a channel could not tell a person who does not decide."""
    event = deliveries.informed(
        approval, work.person, work.channel, work.milestone, now=now, problem=reason
    )
    fall_back_to_mail(change.note([event]), work)


def _give_up(item: Item, approval: Approval | None, problem: str, now: datetime) -> Change:
    change, work = dead_letter(Change(), item, problem), work_of(item)
    if approval is not None and isinstance(work, SendStatus):
        _not_informed(change, approval, work, problem, now=now)
    if approval is not None and isinstance(work, SendCard):
        refuse(change, approval, work.person, channel=work.channel, reason=problem, now=now)
    return change
