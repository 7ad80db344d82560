"""For channels that only know text: what a message says, and what somebody's answer does."""

from __future__ import annotations

import hashlib

import structlog

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.channels.answers import Answers
from signoff.channels.incoming import Answer
from signoff.channels.pipeline.port import Entry, Kind, Message
from signoff.channels.pipeline.reply_tokens import Holder
from signoff.channels.words.messages import moment
from signoff.core.approvals.parts import Shown
from signoff.core.base.errors import ApprovalNotFound, LedgerError
from signoff.core.base.shown_text import shortened
from signoff.core.cards.card import Card, Row

log = structlog.get_logger(__name__)

_CUT = "This is not the whole request. Read it and approve it on its page:"
_NOTHING = frozenset({"", "0", "0.0", "null"})
_NOBODY = "Your account is not in the directory. Ask your Signoff operator to add its address."
_LATER = "This could not be recorded just now, and nothing was decided. Send it again."
_TAKEN = "Your answer was taken. What it did is said with the request."


def text_of(message: Message, *, most: int = 0) -> str:
    """Return all that a message says, line by line, without markup.

    Text of an agent is in it as it is: a channel whose text has markup writes it where that means
    nothing, in a block of code for instance, so that it is no mention and no link.

    Args:
        message: What to tell whom.
        most: How many characters the channel takes, 0 for any number. Of a longer call the text has
            the beginning, and says where the rest is; a yes by this channel does not count then,
            see `shown_in`.
    """
    text = _text(message, message.card)
    if not most or len(text) <= most:
        return text
    card = message.card
    # An equal share for each, so that one huge argument does not hide the others.
    share = most // (2 * (len(card.rows) + 1))
    rows = tuple(row.model_copy(update={"value": shortened(row.value, share)}) for row in card.rows)
    shorter = card.model_copy(update={"rows": rows, "hint": shortened(card.hint, share)})
    note = f"{_CUT} {message.link}".rstrip()
    return f"{_text(message, shorter)[: most - len(note) - 1]}\n{note}"


def shown_in(message: Message, most: int) -> Shown:
    """Return how much of a card's call a text of so many characters shows; see `Delivered`."""
    return Shown.COMPLETE if len(text_of(message)) <= most else Shown.CUT


def _text(message: Message, card: Card) -> str:
    lines = [message.headline or card.title]
    rows = [f"{row.name}: {row.value}" for row in card.rows]
    if message.kind is Kind.CARD:
        lines += [*rows, card.hint, *(f"(!) {one}" for one in card.warnings)]
        lines.append(f"Requested by: {card.requester}")
        lines += [f"{one.who}, {moment(one.at, message.zone)}: {one.text}" for one in card.comments]
        if card.claimed and card.claimed_until is not None:
            until = moment(card.claimed_until, message.zone)
            lines.append(f"Claimed by: {card.claimed}, until {until}")
        lines += [f"Level: {card.level}" if card.level else "", card.escalated, card.progress]
        lines.append(card.similar)
        if card.deadline is not None:
            lines.append(f"Answer until: {moment(card.deadline, message.zone)}")
        if card.fields:
            lines.append(f"To be filled in: {', '.join(map(_field, card.fields))}")
        lines.append(f"Digest: {card.digest}")
    else:
        lines += [
            message.text,
            *map(_entry, message.entries),
            f"For instance: {message.example}" if message.example else "",
        ]
    if message.kind is Kind.OUTCOME:
        # It takes the place of the card, where people look up what was asked.
        lines += [card.title, *rows, f"Requested by: {card.requester}"]
    return "\n".join(line for line in lines if line)


def _entry(entry: Entry) -> str:
    """Name one request of a bundle, and where it can be read."""
    ended = f": {entry.outcome}" if entry.outcome else ""
    return f"- {entry.title}{ended} {entry.link}".rstrip()


def _field(row: Row) -> str:
    """Name a field, with what it starts as where that is more than nothing."""
    start = "" if row.value in _NOTHING else f"it starts as {row.value}"
    about = "; ".join(filter(None, (row.note, start)))
    return f"{row.name} ({about})" if about else row.name


async def take_text(
    decisions: Decisions, channel: str, address: str, text: str, *, source: str
) -> str:
    """Do what somebody says about an approval, and return what to tell them at once.

    The channel vouches for who it is: `address` is an id that nobody can choose, of a
    request that is proven to come from the channel.

    Args:
        decisions: Makes the moves.
        channel: The name of the channel.
        address: Who says it, as under ``[[people]] addresses``.
        text: The id of the approval, and what they say as by mail: ``ap_… approve``.
        source: What the channel calls this message; the same one is answered once.
    """
    approval, _, words = text.strip().partition(" ")
    person = decisions.directory.by_address(channel, address)
    if person is None:
        log.info("answer.of_nobody", channel=channel, approval=approval[:64])
        return _NOBODY
    answer = Answer(
        holder=Holder(approval, person.id, channel),
        token="",
        source=hashlib.sha256(f"{address}\0{source}".encode()).hexdigest()[:16],
        reply_to="",
        also=Change(),
        to=address,
    )
    try:
        await Answers(decisions).take(answer, words)
    except ApprovalNotFound as error:
        return str(error)
    except LedgerError as error:
        log.warning("answer.not_recorded", channel=channel, problem=str(error))
        return _LATER
    return _TAKEN
