"""For channels with only text: renders a message as text, and handles an answer."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

import structlog

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.channels.answers import Answers
from signoff.channels.incoming import Answer
from signoff.channels.pipeline.port import Entry, Kind, Message
from signoff.channels.pipeline.reply_tokens import Holder
from signoff.channels.words.messages import moment
from signoff.core.approvals.parts import Shown
from signoff.core.base.errors import ApprovalNotFound, Conflict, LedgerError
from signoff.core.base.shown_text import shortened
from signoff.core.cards.card import Card, Row

log = structlog.get_logger(__name__)

_REMEMBERED: Final = timedelta(days=1)
_CUT = "This is not the whole request. Read it and approve it on its page:"
_NOTHING = frozenset({"", "0", "0.0", "null"})
_NOBODY = "Your account is not in the directory. Ask your Signoff operator to add its address."
_LATER = "This could not be recorded just now, and nothing was decided. Send it again."
_TAKEN = "Your answer was received. The request shows the result."


def text_of(message: Message, *, most: int = 0) -> str:
    """Return the whole message, line by line, without markup.

    Text from an agent is not escaped. A channel with markup must put it where markup has no effect,
    for example in a code block, so that it cannot become a mention or a link.

    Args:
        message: The message.
        most: The channel's limit in characters, 0 for none. A longer call is cut, and the text
            links to the rest. An approval through this channel then does not count; see `shown_in`.
    """
    text = _text(message, message.card)
    if not most or len(text) <= most:
        return text
    card = message.card
    # Each argument gets an equal share, so that a huge one does not hide the others.
    share = most // (2 * (len(card.rows) + 1))
    rows = tuple(row.model_copy(update={"value": shortened(row.value, share)}) for row in card.rows)
    shorter = card.model_copy(update={"rows": rows, "hint": shortened(card.hint, share)})
    note = f"{_CUT} {message.link}".rstrip()
    room = max(most - len(note) - 1, 0)
    return f"{_text(message, shorter)[:room]}\n{note}".strip()[:most]


def shown_in(message: Message, most: int) -> Shown:
    """Return how much of a call a text of at most `most` characters shows; see `Delivered`."""
    return Shown.COMPLETE if len(text_of(message)) <= most else Shown.CUT


def _text(message: Message, card: Card) -> str:
    lines = [message.headline or card.title]
    rows = [f"{row.name}: {_marked(row.value)}" for row in card.rows]
    if message.kind is Kind.CARD:
        lines += [*rows, _marked(card.hint), *(f"(!) {one}" for one in card.warnings)]
        lines.append(f"Requested by: {card.requester}")
        lines += [
            f"{one.who}, {moment(one.at, message.zone)}: {_marked(one.text)}"
            for one in card.comments
        ]
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
        # This text replaces the card, in which people look up the request.
        lines += [card.title, *rows, f"Requested by: {card.requester}"]
    return "\n".join(line for line in lines if line)


def _marked(text: str) -> str:
    """Return text of others whose further lines are marked, so that none reads as one of ours."""
    return text.replace("\n", "\n    | ")


def _entry(entry: Entry) -> str:
    """Return the line for one request of a bundle, with its link."""
    ended = f": {entry.outcome}" if entry.outcome else ""
    return f"- {entry.title}{ended} {entry.link}".rstrip()


def _field(row: Row) -> str:
    """Return the name of a field, with its initial value if it has one."""
    start = "" if row.value in _NOTHING else f"it starts as {row.value}"
    about = "; ".join(filter(None, (row.note, start)))
    return f"{row.name} ({about})" if about else row.name


async def take_text(
    decisions: Decisions, channel: str, address: str, text: str, *, source: str
) -> str:
    """Take a person's answer about an approval, and return the immediate reply.

    The channel vouches for the person: the caller must verify that the request comes from the
    channel, and `address` must be an id that users cannot choose.

    Args:
        decisions: Makes the moves.
        channel: The name of the channel.
        address: The sender's id, as in ``[[people]] addresses``.
        text: The id of the approval and the answer, as in a mail: ``ap_… approve``.
        source: The id of this message in the channel; each is handled once, even if the channel
            repeats it within a day. "" if the channel has no ids.
    """
    approval, words = (*text.split(maxsplit=1), "", "")[:2]
    person = decisions.directory.by_address(channel, address)
    if person is None:
        log.info("answer.of_nobody", channel=channel, approval=approval[:64])
        return _NOBODY
    message = hashlib.sha256(f"{address}\0{source}".encode()).hexdigest()[:16]
    handled, also = f"text:{channel}:{message}", Change()
    if source:
        also.put_raw(handled, "1", ttl=_REMEMBERED)
    answer = Answer(
        holder=Holder(approval, person.id, channel),
        token="",
        source=message,
        reply_to="",
        also=also,
        to=address,
    )

    async def is_handled() -> bool:
        return bool(source) and await decisions.ledger.raw(handled) is not None

    try:
        if await is_handled():
            return _TAKEN
        await decisions.roster.refresh()
        try:
            await Answers(decisions).take(answer, words)
        except Conflict:
            # The channel sent it twice at the same time, and the other one was first.
            if not await is_handled():
                raise
    except ApprovalNotFound as error:
        return str(error)
    except LedgerError as error:
        log.warning("answer.not_recorded", channel=channel, problem=str(error))
        return _LATER
    return _TAKEN
