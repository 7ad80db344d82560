"""A received answer, and the notice that replies to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.broker.ledger.change import Change
from signoff.channels.pipeline.notices import tell
from signoff.channels.pipeline.reply_tokens import Holder
from signoff.channels.words.messages import RenderedMessage
from signoff.channels.words.phrases import About

_WITH_TOKEN: Final = frozenset(
    {
        About.NOT_UNDERSTOOD,
        About.STRANGER,
        About.UNPROVEN,
        About.TOO_LARGE,
        About.GRANTED,
        About.NO_GRANT,
        About.CLAIMED,
        About.DONE,
        About.NOT_SHOWN,
    }
)
"""Notices after which the person may still answer; they carry the token again."""


class Notice(NamedTuple):
    """A message to one person."""

    person: str
    about: About
    words: RenderedMessage


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer, and the changes that must be committed together with its effect.

    Attributes:
        holder: The person and the approval that the token names.
        token: The token. A notice after which the person may still answer repeats it.
        source: Identifies the received message, so that each gets one notice.
        reply_to: The id of the message in the channel; our notice appears below it.
        also: Marks the message as handled.
        to: The address of our notice in the channel, "" for that of the card. With an address, the
            person gets a notice each time.
        more: Details about the author for the audit.
        vouched: Whether the channel vouches for the author, regardless of the policy.
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
    """Add a notice to a change, in reply to an answer."""
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
