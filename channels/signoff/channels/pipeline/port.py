"""The port between the stages and a channel: what to tell whom, and the result.

A channel renders and delivers; it decides nothing, reads no ledger and keeps no state of its own.
What comes in through it is a matter of its own: see `Answering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from signoff.core.approvals.parts import Shown
from signoff.core.cards.card import Card

if TYPE_CHECKING:
    from fastapi import APIRouter

    from signoff.broker.decisions import Decisions


class Kind(StrEnum):
    """What a message is for."""

    CARD = "card"
    """The question."""
    UPDATE = "update"
    """The question as it stands by now, in the place of its card; see `Rewriting`."""
    OUTCOME = "outcome"
    """How it ended; the card is not open any more."""
    END = "end"
    """What the agent did with the answer, once it has; it belongs below the card."""
    QUESTION = "question"
    """A question of those who are asked to the requester, whose answer decides nothing."""
    STATUS = "status"
    """How it stands, for somebody who does not decide it; it takes no answer."""
    NOTICE = "notice"
    """An answer to what the person wrote: not understood, too late, ..."""
    BUNDLE = "bundle"
    """Several questions in one message, a link to each; see `Bundles`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One of several requests that a message lists.

    Attributes:
        title: What is asked, with the first arguments.
        requester: Who asks, for people; "" where the title says so.
        deadline: Until when it can be answered (UTC); None where it stays open.
        link: Its page.
        outcome: How it ended, "" while it waits for the reader.
    """

    title: str
    requester: str
    deadline: datetime | None
    link: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """Something to tell one person through one channel.

    Attributes:
        id: A function of the cause; a channel that sends it twice sends the same message twice.
        kind: What it is for.
        card: What it is about.
        person: The id of the person.
        name: The person's name, for a salutation.
        address: Where to, in the channel's terms.
        at: The present, by the ledger's clock (UTC).
        zone: Where the clock of the person stands: all times are written by it.
        token: What lets the person answer (secret), "" where no answer is expected.
        headline: For all but a card: the one line that says it all.
        text: For all but a card: the rest, paragraphs separated by blank lines.
        example: For a notice: an answer that would have worked, "" for none.
        good: For an outcome: whether the call goes on.
        thread: The receipt of the card, so that what follows appears beside it; "" for none.
        link: The page where the person can look at it and answer, "" where there is none.
        reply_to: What the person's own message was called, "" where there was none.
        attempt: Which attempt this is.
        unsure: Whether an earlier attempt may have been delivered all the same.
        copies: Receipts of further copies of the card that came to light.
        level_key: The level at which it was asked, "" for the first: who is asked at two gets
            two cards.
        offers: For a notice: the one word that answers it, where a button can say it: ``revoke``.
        entries: For a bundle: what it lists. Its `card` is about none of them, and has the id of
            the bundle in the place of an approval's.
    """

    id: str
    kind: Kind
    card: Card
    person: str
    name: str
    address: str
    at: datetime
    token: str = ""
    headline: str = ""
    text: str = ""
    example: str = ""
    good: bool = False
    thread: str = ""
    link: str = ""
    reply_to: str = ""
    attempt: int = 1
    unsure: bool = False
    copies: tuple[str, ...] = ()
    level_key: str = ""
    offers: str = ""
    zone: tzinfo = UTC
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    """The channel has it.

    Attributes:
        receipt: What the channel calls it.
        copy: What became of the card, where the channel can say: ``reconciled`` (it was there
            already), ``updated`` (rewritten), ``lost`` (it is gone, or cannot be changed).
        shown: Of a card: whether it shows all of the call. A yes by a channel that has cut, folded
            or left out some of it does not count; where a channel does not say, only a short call
            can be approved by it.
    """

    receipt: str
    copy: str = ""
    shown: Shown = Shown.UNKNOWN


@dataclass(frozen=True, slots=True)
class Retry:
    """Not now. `after` is the channel's wish in seconds, 0 where it has none.

    What only waits for its turn is not counted as an attempt: it is never given up for that.

    Attributes:
        after: See above.
        problem: Why not.
        counted: Whether it was an attempt.
        unsure: Whether it may have been delivered all the same; see `Message.unsure`.
    """

    after: float
    problem: str
    counted: bool = True
    unsure: bool = True


@dataclass(frozen=True, slots=True)
class Refused:
    """Never: there is no use in trying again."""

    reason: str


Result = Delivered | Retry | Refused


class Channel(Protocol):
    """A way to reach people."""

    name: str
    """As in ``deliver.<name>``, in `Asked.channel` and in the audit."""

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Deliver a batch.

        Args:
            messages: Any number of them, of any kind.

        Returns:
            One result for each message, in their order. A message that cannot be delivered does
            not keep the others from it, and what goes wrong is a result, never an exception.
        """


@dataclass(frozen=True, slots=True)
class LinkMail:
    """A link to sign in, for the person who has asked for it.

    Attributes:
        id: A function of the cause.
        person: The id of the person.
        name: The person's name.
        address: Where to.
        at: The present (UTC).
        until: Until when the link is good (UTC).
        link: The link; somebody with it and with the browser that asked for it is the person.
        browser: Which browser has asked, in our own words.
        zone: See `Message.zone`.
    """

    id: str
    person: str
    name: str
    address: str
    at: datetime
    until: datetime
    link: str
    browser: str
    zone: tzinfo = UTC


class MailsLinks(Protocol):
    """What mails links to sign in."""

    async def deliver_links(self, messages: Sequence[LinkMail]) -> list[Result]:
        """Mail some; see `Channel.deliver`."""


class Pages(Protocol):
    """The page that messages link to."""

    def link_to(self, approval: str) -> str:
        """Return the URL of an approval, "" where there is no page."""


@runtime_checkable
class Rewriting(Protocol):
    """A channel that rewrites its cards while they are open: only such a one is sent an update."""

    rewrites: bool


@runtime_checkable
class Bundles(Protocol):
    """A channel that can list several requests in one message: only such a one is sent bundles.

    Where it also rewrites, a bundle with a `Message.thread` takes the place of the one there.
    """

    bundles: bool


@runtime_checkable
class Answering(Protocol):
    """A channel that also takes answers, by HTTP."""

    def routes(self, decisions: Decisions) -> APIRouter:
        """Return what the gateway serves for it; answers go to `Answers`, on this decisions."""
