"""The stages `deliver.<channel>`: hand a batch to the channel, then record what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import structlog

from signoff.broker import stages
from signoff.broker.effects import rewrite
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import (
    AskRequester,
    CloseCard,
    CloseLevel,
    Closing,
    DeliveryWork,
    Notice,
    ReportFailure,
    ReportResult,
    SendCard,
    UpdateCard,
)
from signoff.channels.pipeline.outbox import (
    MOST_ATTEMPTS,
    approval_of,
    backoff,
    commit_each,
    dead_letter,
    drain,
    legible,
    read_each,
    work_of,
)
from signoff.channels.pipeline.port import (
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
from signoff.channels.pipeline.route import route_again
from signoff.channels.pipeline.targets import EMAIL, address_of
from signoff.channels.words import levels, phrases
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, Asked, Shown, State
from signoff.core.cards.card import Row, card
from signoff.core.directory.people import Directory

log = structlog.get_logger(__name__)

_NOT_SHOWN: Final = (Row(name="arguments", value="not shown to those who were not asked"),)

PATIENCE: Final = 4
"""How often an outcome waits for its card, which may be under way, before it is dropped."""


class Delivery:
    """Delivers through one channel.

    Args:
        ledger: The ledger.
        channel: The channel.
        directory: The people.
        inbox: The page that messages link to, if there is one.
    """

    def __init__(
        self,
        ledger: Ledger,
        channel: Channel,
        *,
        directory: Directory,
        inbox: Pages | None = None,
    ) -> None:
        self._ledger = ledger
        self._channel = channel
        self._directory = directory
        self._inbox = inbox

    async def drain(self) -> int:
        """Work until nothing waits, and return how many items there were.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return await drain(self._ledger, stages.deliver(self._channel.name), self.work)

    async def work(self, items: Sequence[Item]) -> None:
        """Deliver leased items and commit each by itself.

        A process that dies in between delivers some of them again: the same messages, under the
        same names.
        """
        approvals = await read_each(self._ledger, [approval_of(item) for item in items])
        now = await self._ledger.now()
        messages: dict[str, Message] = {}
        failed: dict[str, Exception] = {}
        spare = _spare(items)
        for item in items:
            if item.id in spare:
                continue
            approval = approvals[approval_of(item)]
            try:
                message = self._message(item, legible(approval), now)
            except Exception as error:  # noqa: BLE001 -- one bad card must not stop the others
                failed[item.id] = error
                continue
            if message is not None:
                messages[item.id] = message
        results = await self._deliver(messages)

        def build(item: Item, approval: Approval, now: datetime) -> Change:
            if item.id in failed:
                raise failed[item.id]
            if item.id in spare:
                return Change().ack(item)
            if item.id not in results:
                return self._not_sent(item, approval)
            return self._record(item, approval, results[item.id], messages[item.id], now)

        await commit_each(self._ledger, items, build, _give_up)

    async def _deliver(self, messages: dict[str, Message]) -> dict[str, Result]:
        """Return the results by item id."""
        if not messages:
            return {}
        try:
            results = await self._channel.deliver(list(messages.values()))
        except Exception as error:
            # The port forbids it; a channel that does it all the same stops nobody else.
            log.exception("delivery.channel_failed", channel=self._channel.name)
            results = [Retry(0, f"{type(error).__name__}: {error}")] * len(messages)
        return dict(zip(messages, results, strict=True))

    def _message(self, item: Item, approval: Approval, now: datetime) -> Message | None:
        """Return what to deliver, None for what need not be, or not yet."""
        work = _delivery(item)
        asked = self._asked(work, approval)
        if isinstance(work, Notice) and work.address:
            asked = asked or Asked(person="", channel=self._channel.name, address="")
            asked = asked.model_copy(update={"address": work.address})
        if asked is None:
            return None
        words = self._words(work, approval, asked)
        if words is None:
            return None
        person = self._directory.get(asked.person)
        shape, link = card(approval, self._directory), ""
        if not self._concerns(asked, approval):
            # The call may be a secret from the person who has only got hold of a token.
            shape = shape.model_copy(update={"rows": _NOT_SHOWN, "hint": "", "warnings": ()})
        elif self._inbox is not None and approval.state is State.PENDING:
            link = self._inbox.link_to(approval.id)
        message = Message(
            id=item.id,
            kind=_kind(work),
            card=shape,
            person=asked.key,
            name=person.shown if person else asked.person,
            address=asked.address,
            at=now,
            headline=words.headline,
            text=words.text,
            example=_possible(words.example, asked, approval),
            good=approval.state is State.APPROVED and not isinstance(work, ReportFailure),
            thread=asked.receipt,
            link=link,
            attempt=item.attempts,
            unsure=item.attempts - 1 > work.failed,
            copies=asked.copies,
            turn=asked.turn,
        )
        if isinstance(work, SendCard):
            return replace(message, token=work.token)
        if isinstance(work, Notice):
            return replace(message, token=work.token, reply_to=work.reply_to, offers=work.offers)
        return message

    def _concerns(self, asked: Asked, approval: Approval) -> bool:
        """Say whether somebody was asked, or has asked for this himself."""
        mine = self._directory.same(asked.person, approval.origin.user)
        return mine or any(one.person == asked.person for one in approval.asked)

    def _words(self, work: DeliveryWork, approval: Approval, asked: Asked) -> phrases.Words | None:
        """Return what a message says besides its card, None where it is not to be delivered."""
        match work:
            case SendCard():
                return phrases.Words("") if _asks_still(work, approval, asked) else None
            case UpdateCard():
                able = isinstance(self._channel, Rewriting) and self._channel.rewrites
                shown = able and asked.receipt and _asks_still(work, approval, asked)
                return phrases.Words("") if shown else None
            case CloseCard() | CloseLevel() | ReportFailure() | ReportResult():
                return self._closing(work, approval, asked) if asked.receipt else None
        return phrases.Words(work.headline, work.text, work.example)

    def _closing(self, work: Closing, approval: Approval, asked: Asked) -> phrases.Words | None:
        match work:
            case CloseLevel(turn=turn) if turn != asked.turn:
                # Who was asked anew since has another card, which is not that of an earlier level.
                return None
            case CloseLevel() if approval.state is State.PENDING:
                return levels.went_on(approval, self._directory, asked.turn)
            case ReportFailure(problem=problem):
                return phrases.unheard(approval, problem)
            case ReportResult(remarks=remarks):
                return phrases.ended(approval, asked.person, remarks, self._directory)
        return phrases.outcome(approval, asked.person, self._directory)

    def _asked(self, work: DeliveryWork, approval: Approval) -> Asked | None:
        for asked in approval.asked:
            if (asked.key, asked.channel) == (work.person, self._channel.name):
                return asked
        known = self._directory.get(work.person)
        if known is None or not isinstance(work, Notice) or work.address:
            return None
        # Who was not asked is told under the address that we know, never under one of a mail.
        name = self._channel.name
        return Asked(person=known.id, channel=name, address=address_of(known, name))

    def _not_sent(self, item: Item, approval: Approval) -> Change:
        work = _delivery(item)
        asked = self._asked(work, approval)
        wait = isinstance(work, Closing) and asked is not None and not asked.problem
        if wait and item.attempts <= PATIENCE:
            # Its card may be on its way this moment; anyone who gets the one should get the other.
            return Change().retry(item, after=float(2 ** (item.attempts - 1)))
        log.info("delivery.dropped", item=item.id, approval=approval.id)
        return Change().ack(item)

    def _record(
        self, item: Item, approval: Approval, result: Result, sent: Message, now: datetime
    ) -> Change:
        work = _delivery(item)
        name, person = self._channel.name, work.person
        about = {"item": item.id, "approval": approval.id, "channel": name, "person": person}
        if isinstance(result, Retry) and not result.counted:
            log.info("delivery.waits", **about, problem=result.problem, after=result.after)
            body = _body_of_retry(item, result, attempts=item.attempts - 1)
            return Change().retry(item, after=result.after, counted=False, body=body)
        if isinstance(result, Retry) and item.attempts < MOST_ATTEMPTS:
            after = max(result.after, backoff(item.attempts))
            log.warning("delivery.retry", **about, problem=result.problem, after=round(after))
            body = _body_of_retry(item, result, attempts=item.attempts)
            return Change().retry(item, after=after, body=body)
        if isinstance(result, Retry):
            # Nothing was said about the recipient: it is the way there that somebody has to mend.
            log.error("delivery.given_up", **about, attempts=item.attempts, problem=result.problem)
            result = Refused(f"{result.problem} (given up after {item.attempts} attempts)")
        change = Change().ack(item)
        asked = self._asked(work, approval)
        # A card of an earlier level says nothing about the one that was asked for since.
        is_card = isinstance(work, SendCard) and asked is not None and asked.turn == work.turn
        if isinstance(result, Delivered):
            log.info("delivery.delivered", **about)
            if is_card:
                after_it, events = deliveries.delivered(
                    approval,
                    person,
                    name,
                    result.receipt,
                    now=now,
                    copy_state=result.copy,
                    shown=result.shown,
                )
                change.put(after_it, was=approval).note(events)
            elif isinstance(work, UpdateCard):
                if asked is not None and result.shown not in {Shown.UNKNOWN, asked.shown}:
                    change.put(
                        deliveries.rewritten(approval, person, name, shown=result.shown),
                        was=approval,
                    )
                self._settled(change, item, work, approval, sent)
            elif result.copy:
                change.put(deliveries.rewritten(approval, person, name, result.copy), was=approval)
            return change
        log.warning("delivery.refused", **about, reason=result.reason)
        if is_card:
            refuse(change, approval, person, channel=name, reason=result.reason, now=now)
        return change

    def _settled(
        self, change: Change, item: Item, work: UpdateCard, approval: Approval, sent: Message
    ) -> None:
        """See to it that a card ends up as things stand, whatever happened while it was written.

        Others may have written it meanwhile, and Slack promises no order.
        """
        card_of = {"channel": work.channel, "approval": work.approval, "person": work.person}
        if approval.state is not State.PENDING:
            change.send(CloseCard(**card_of, corrects=item.id))
            return
        asked, again = self._asked(work, approval), self._message(item, approval, sent.at)
        if again is None:
            change.send(CloseLevel(**card_of, turn=work.turn, corrects=item.id))
        elif asked is not None and again.card != sent.card:
            rewrite(change, approval, asked)


def _body_of_retry(item: Item, result: Retry, *, attempts: int) -> dict[str, Any] | None:
    """Return the body of an item that is put back after so many attempts that count.

    A process that died in an attempt has left no word about it: that one has not certainly failed.
    """
    if result.unsure or "work" not in item.body:
        return None
    return {**item.body, "failed": attempts}


def _spare(items: Sequence[Item]) -> frozenset[str]:
    """Return the ids of those updates of a card that another one in the batch makes needless."""
    works = {item.id: work_of(item) for item in items}
    updates = {name: work for name, work in works.items() if isinstance(work, UpdateCard)}
    kept = {(one.approval, one.person, one.turn): name for name, one in updates.items()}
    return frozenset(updates) - frozenset(kept.values())


def _delivery(item: Item) -> DeliveryWork:
    work = item.work
    if not isinstance(work, DeliveryWork):
        raise TypeError(f"{work.work} is nothing that a channel delivers")
    return work


def _kind(work: DeliveryWork) -> Kind:
    match work:
        case SendCard():
            return Kind.CARD
        case UpdateCard():
            return Kind.UPDATE
        case ReportResult():
            return Kind.END
        case CloseCard() | CloseLevel() | ReportFailure():
            return Kind.OUTCOME
        case AskRequester():
            return Kind.QUESTION
    return Kind.NOTICE


def _possible(example: str, asked: Asked, approval: Approval) -> str:
    """Return an answer that would be taken: a no, where the card does not show all of the call."""
    cut = asked.shown is Shown.CUT and not approval.in_two_steps
    return phrases.EXAMPLE_OF_NO if cut and example else example


def _asks_still(work: SendCard | UpdateCard, approval: Approval, asked: Asked) -> bool:
    """Say whether a card is still to be sent: it is not settled, and did not go on to others."""
    may = asked.person in approval.approvers if asked.person else asked.turn == approval.turn
    return approval.state is State.PENDING and may and work.turn == asked.turn


def refuse(
    change: Change, approval: Approval, person: str, *, channel: str, reason: str, now: datetime
) -> None:
    """Add to a change that a card can never reach a person.

    Anyone who got no other card is asked by mail. When those who can still answer are too few, the
    next level is asked, or the default.
    """
    after, events = deliveries.undelivered(approval, person, channel, reason, now=now)
    change.put(after, was=approval).note(events)
    if after.state is not State.PENDING:
        return
    mailed = any((one.person, one.channel) == (person, EMAIL) for one in after.asked)
    by_mail = person in deliveries.unreached(after) and not mailed
    if by_mail or not (deliveries.is_reachable(after) and deliveries.can_be_met(after)):
        route_again(change, after)


def _give_up(item: Item, approval: Approval | None, problem: str, now: datetime) -> Change:
    change, work = dead_letter(Change(), item, problem), work_of(item)
    if approval is not None and isinstance(work, SendCard):
        refuse(change, approval, work.person, channel=work.channel, reason=problem, now=now)
    return change
