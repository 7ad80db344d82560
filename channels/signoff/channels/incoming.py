"""An answer that has reached us, and how we answer it back."""

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
"""After these the person may still answer."""


class Notice(NamedTuple):
    """Something to tell one person."""

    person: str
    about: About
    words: Words


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody said, and what must be committed with what it does.

    Attributes:
        holder: Who may answer what, as the token says.
        token: The token, which a question back carries again.
        source: A function of what came in, so that it is answered once.
        reply_to: What the channel calls it, so that our answer appears below it.
        also: Acknowledges what came in.
        to: Where our answer goes, in the channel's terms; "" is where the card went. The person who
            presses a button in a place gets an answer there, each time.
        more: What the audit shall know about the person who answered.
        vouched: Whether the channel vouches that it is this person's, whatever a policy asks for.
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
    """Add to a change a notice that answers one answer."""
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
