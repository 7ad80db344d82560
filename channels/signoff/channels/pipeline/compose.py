"""The messages of deliveries: whether each is still needed, and what it says."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from signoff.broker.directory.roster import Roster
from signoff.broker.ledger.change import Item
from signoff.broker.work import (
    AnyDelivery,
    AskRequester,
    CloseCard,
    CloseLevel,
    Closing,
    DeliveryWork,
    Notice,
    ReportFailure,
    ReportResult,
    SendCard,
    SendReminder,
    SendStatus,
    UpdateCard,
)
from signoff.channels.pipeline.informing import is_reported
from signoff.channels.pipeline.outbox import BATCH
from signoff.channels.pipeline.port import Kind, Message, Pages
from signoff.channels.pipeline.quiet_hours import comes_with_card
from signoff.channels.words import phrases
from signoff.channels.words.messages import RenderedMessage, is_shown_to
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, Asked, Shown, State
from signoff.core.approvals.milestones import Milestone, is_over
from signoff.core.cards.card import Card, Row, card, have_same_card
from signoff.core.directory.people import Directory

_NOT_SHOWN: Final = (Row(name="arguments", value="not shown to those who were not asked"),)


class Composer:
    """Composes the messages of one channel.

    Args:
        roster: The people with their present absences, and what is frozen.
        inbox: The page that messages link to, if there is one.
        rewrites: Whether the channel rewrites its cards.
    """

    def __init__(self, roster: Roster, inbox: Pages | None, *, rewrites: bool) -> None:
        self._roster = roster
        self._inbox = inbox
        self._rewrites = rewrites
        self._shapes: dict[str, tuple[Approval, Directory, Card]] = {}

    @property
    def _directory(self) -> Directory:
        return self._roster.directory

    def compose(
        self, item: Item, asked: Asked, approval: Approval, now: datetime
    ) -> Message | None:
        """Return the message to a recipient, None if there is none, or not yet."""
        work = delivery_of(item)
        unsure, is_lost = item.attempts - 1 > work.failed, False
        if unsure and isinstance(work, SendCard) and _may_be_left(work, approval, asked):
            work, is_lost = closing_of(work, approval), True
        elif unsure and isinstance(work, SendCard) and not deliveries.is_wanted(approval, asked):
            work, is_lost = _update_of(work, approval), True
        words = self._words(work, approval, asked, now, is_lost=is_lost)
        if words is None:
            return None
        person = self._directory.get(asked.person)
        shape, link = self._card(approval), ""
        if not is_shown_to(approval, asked.person, self._directory):
            # The reader may only have got hold of a token, and must not see the call.
            shape = shape.bare.model_copy(update={"rows": _NOT_SHOWN})
        elif self._inbox is not None and (
            approval.state is State.PENDING or isinstance(work, SendStatus)
        ):
            link = self._inbox.link_to(approval.id)
        message = Message(
            # By their ids, mail programs tell a closing from the card.
            id=work.id if is_lost else item.id,
            kind=_kind(work),
            card=shape,
            token=work.token if isinstance(work, SendCard | Notice) else "",
            person=asked.key,
            name=person.shown if person else asked.person,
            address=asked.address,
            at=now,
            zone=self._directory.zone_of(asked.person),
            headline=words.headline,
            text=words.text,
            example=_possible(words.example, asked, approval),
            good=approval.state is State.APPROVED and not _failed(work),
            thread=asked.receipt,
            link=link,
            attempt=item.attempts,
            unsure=unsure,
            copies=asked.copies,
            level_key=asked.level_key,
            decides=approval.state is State.PENDING
            and asked.is_for(approval.approvers, approval.level_key),
        )
        if isinstance(work, Notice):
            return replace(message, reply_to=work.reply_to, offers=work.offers)
        return message

    def _card(self, approval: Approval) -> Card:
        """Return the card of an approval. It is kept: all recipients get the same one."""
        people = self._directory
        known = self._shapes.pop(approval.id, None)
        if known is not None and known[1] is people and have_same_card(known[0], approval, people):
            shape = known[2]
        else:
            shape = card(approval, people)
        self._shapes[approval.id] = approval, people, shape
        if len(self._shapes) > 2 * BATCH:
            del self._shapes[next(iter(self._shapes))]
        return shape

    def _words(
        self,
        work: DeliveryWork,
        approval: Approval,
        asked: Asked,
        now: datetime,
        *,
        is_lost: bool,
    ) -> RenderedMessage | None:
        """Return the text of a message besides its card, None if it is not to be delivered.

        A lost card may have been delivered although it has no receipt.
        """
        if self._is_needless(work, approval, asked, now):
            return None
        match work:
            case SendCard():
                is_wanted = deliveries.is_wanted(approval, asked)
                return (
                    RenderedMessage("") if is_wanted and asks_still(work, approval, asked) else None
                )
            case UpdateCard():
                there = asked.receipt or is_lost
                shown = self._rewrites and there and asks_still(work, approval, asked)
                return RenderedMessage("") if shown else None
            case CloseCard() | CloseLevel() | ReportFailure() | ReportResult():
                there = asked.receipt or is_lost
                return self._closing(work, approval, asked) if there else None
            case SendStatus():
                return self._status(work, approval)
        return RenderedMessage(work.headline, work.text, work.example)

    def _status(self, work: SendStatus, approval: Approval) -> RenderedMessage | None:
        if is_over(approval, work.milestone, work.level_key):
            return None
        return phrases.status(
            approval,
            work.milestone,
            self._directory,
            requests=work.requests,
            reader=work.person,
            remarks=work.remarks,
            problem=work.problem,
        )

    def _is_needless(
        self, work: DeliveryWork, approval: Approval, asked: Asked, now: datetime
    ) -> bool:
        """Return whether a message is not needed any more, or is told in another one."""
        match work:
            case UpdateCard() | CloseCard() | CloseLevel() | ReportResult() if asked.bundle:
                # A message for each of them would be too many; the page says how each ended.
                return True
            case SendReminder(level_key=level_key):
                here = approval.state is State.PENDING and level_key == approval.level_key
                awaited = not asked.person or asked.person in approval.ballot.awaited
                fresh = comes_with_card(work, approval, asked, self._directory, now)
                return fresh or not (here and awaited)
        return is_reported(work, approval)

    def _closing(self, work: Closing, approval: Approval, asked: Asked) -> RenderedMessage | None:
        match work:
            case CloseLevel(level_key=level_key) if level_key != asked.level_key:
                # This person was asked again, and has the card of a later level.
                return None
            case CloseLevel() if has_lost_seat(work, approval):
                # Channels that cannot rewrite a card have told the person already.
                gone = self._rewrites and asked.person not in approval.approvers
                return phrases.seat_gone(approval, self._directory, asked.person) if gone else None
            case CloseLevel() if approval.state is State.PENDING:
                return phrases.moved_on(approval, self._directory, asked.level_key, asked.person)
            case ReportFailure(problem=problem):
                return phrases.refusal("failed", approval, problem, self._directory, asked.person)
            case ReportResult(remarks=remarks):
                return phrases.result(approval, asked.person, remarks, self._directory)
        return phrases.outcome(approval, asked.person, self._directory)


def delivery_of(item: Item) -> DeliveryWork:
    """Return the work of an item of a stage that delivers.

    Raises:
        RecordUnreadable: This version cannot read it.
    """
    work = item.work
    if not isinstance(work, AnyDelivery):
        raise TypeError(f"{work.work} is not a delivery")
    return work


def _kind(work: DeliveryWork) -> Kind:  # noqa: PLR0911 -- one for each kind
    match work:
        case SendCard():
            return Kind.CARD
        case UpdateCard():
            return Kind.UPDATE
        case ReportResult():
            return Kind.END
        case CloseCard() | CloseLevel() | ReportFailure():
            return Kind.OUTCOME
        case SendStatus():
            return Kind.STATUS
        case AskRequester():
            return Kind.QUESTION
    return Kind.NOTICE


def _failed(work: DeliveryWork) -> bool:
    of_requester = isinstance(work, SendStatus) and work.milestone is Milestone.FAILED
    return isinstance(work, ReportFailure) or of_requester


def _possible(example: str, asked: Asked, approval: Approval) -> str:
    """Return an example of a valid answer: a no if the card does not show the whole call."""
    cut = asked.shown is Shown.CUT and not approval.in_two_steps
    return phrases.EXAMPLE_OF_NO if cut and example else example


def asks_still(work: SendCard | UpdateCard, approval: Approval, asked: Asked) -> bool:
    """Return whether a card is still to be sent: the approval is pending and asks this person."""
    may = asked.is_for(approval.approvers, approval.level_key)
    return approval.state is State.PENDING and may and work.level_key == asked.level_key


def _may_be_left(work: SendCard, approval: Approval, asked: Asked) -> bool:
    """Return whether a card without a receipt is not to be sent any more, but may be there."""
    here = work.level_key == asked.level_key and not asked.receipt
    return here and not asks_still(work, approval, asked)


def closing_of(work: SendCard, approval: Approval) -> CloseCard | CloseLevel:
    """Return the delivery that closes a card."""
    card_of = {"channel": work.channel, "approval": work.approval, "person": work.person}
    if approval.state is not State.PENDING:
        return CloseCard(**card_of)
    return CloseLevel(**card_of, level_key=work.level_key)


def _update_of(work: SendCard, approval: Approval) -> UpdateCard:
    """Return the delivery that finds a card that was given up, but may be there."""
    return UpdateCard(
        channel=work.channel,
        approval=work.approval,
        person=work.person,
        level_key=work.level_key,
        version=approval.version,
    )


def has_lost_seat(work: DeliveryWork, approval: Approval) -> bool:
    """Return whether a card is closed because its reader has no seat any more at this level."""
    here = isinstance(work, CloseLevel) and work.level_key == approval.level_key
    return here and approval.state is State.PENDING
