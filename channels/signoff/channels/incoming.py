"""An answer from a person, and the notice that replies to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.broker.ledger.change import Change
from signoff.channels.pipeline.notices import tell
from signoff.channels.pipeline.reply_tokens import Holder
from signoff.channels.words.messages import Words
from signoff.channels.words.phrases import About

_WITH_TOKEN: Final = frozenset(
    {
        About.NOT_UNDERSTOOD,
        About.STRANGER,
        About.UNPROVEN,
        About.GRANTED,
        About.NO_GRANT,
        About.CLAIMED,
        About.DONE,
        About.NOT_SHOWN,
    }
)
"""The subjects after which the person may answer again."""


class Notice(NamedTuple):
    """A message to one person."""

    person: str
    about: About
    words: Words


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer from a person, and the change that acknowledges it.

    Attributes:
        holder: The person and the request, according to the token.
        token: The token; notices to which the person may reply have it too.
        source: Derived from the incoming message, so that it is answered once.
        reply_to: The channel's id of the incoming message, so that the notice appears below it.
        also: Acknowledges the incoming message.
        to: The address of the notice, in the channel's format; "" for that of the card. With an
            address, the person gets each notice, and not only one of its kind a day.
        more: Details about the author, for the audit.
        vouched: Whether the channel proves that the answer is this person's, whatever proof a
            policy requires.
    """

    holder: Holder
    token: str
    source: str
    reply_to: str
    also: Change
    to: str = ""
    more: Mapping[str, JsonValue] = field(default_factory=dict)
    vouched: bool = True


def answer_back(change: Change, answer: Answer, notice: Notice) -> None:
    """Add to a change a notice that replies to an answer."""
    holder, about, words = answer.holder, notice.about, notice.words
    mine = notice.person == holder.person
    tell(
        change,
        holder if mine else Holder(holder.approval, notice.person, holder.channel),
        words,
        cause=f"{about}:{holder.approval}:{notice.person}:{answer.source}",
        token=answer.token if about in _WITH_TOKEN else "",
        offers=words.example if about is About.GRANTED else "",
        reply_to=answer.reply_to if mine else "",
        address=answer.to if mine else "",
    )
