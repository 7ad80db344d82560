"""The port between the pipeline and a channel: the messages to deliver, and the results.

A channel renders and delivers. It decides nothing, does not read the ledger and keeps no state.
Incoming answers have a protocol of their own: see `Answering`.
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
    """The purpose of a message."""

    CARD = "card"
    """The request for a decision."""
    UPDATE = "update"
    """The current state of an open request, which replaces its card; see `Rewriting`."""
    OUTCOME = "outcome"
    """How the request ended. The card is closed.

    If the message has no `Message.thread`, an earlier attempt may have delivered a card whose
    receipt was lost. A channel that rewrites searches for it, and returns its receipt, or an empty
    one if there is none. Others tell the person.
    """
    END = "end"
    """What the agent did with the answer. It belongs below the card."""
    QUESTION = "question"
    """A question from an approver to the requester, whose answer decides nothing."""
    STATUS = "status"
    """The status, for somebody who does not decide. It takes no answer."""
    NOTICE = "notice"
    """A reply to the person's own message: not understood, too late, ..."""
    BUNDLE = "bundle"
    """Several requests in one message, with a link to each; see `Bundles`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One of several requests that a message lists.

    Attributes:
        title: The call, with its first arguments.
        requester: The requester's name for display; "" if the title says it.
        deadline: The deadline for an answer (UTC); None if there is none.
        link: The URL of its page.
        outcome: How it ended; "" while it waits for the reader.
    """

    title: str
    requester: str
    deadline: datetime | None
    link: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to one person through one channel.

    Attributes:
        id: Derived from the cause, so that a message that is sent twice has the same id.
        kind: The purpose.
        card: The request that it is about.
        person: The id of the person.
        name: The person's name, for a salutation.
        address: The address, in the channel's format.
        at: The current time by the ledger's clock (UTC).
        zone: The person's time zone, in which all times are written.
        token: The secret with which the person answers, "" if no answer is expected.
        headline: Not for a card: the whole message in one line.
        text: Not for a card: the other paragraphs, separated by blank lines.
        example: For a notice: a valid answer, "" for none.
        good: For an outcome: whether the call proceeds.
        thread: The receipt of the card, so that later messages appear beside it; "" for none.
        link: The page where the person can read and answer the request, "" if there is none.
        reply_to: The id of the person's own message, "" if there was none.
        attempt: The number of this attempt.
        unsure: Whether an earlier attempt may have been delivered despite its error.
        copies: Receipts of further copies of the card that were found.
        level_key: The level at which the person is asked, "" for the first. A person who is asked
            at two levels gets two cards.
        offers: For a notice: the one-word answer that a button can give: ``revoke``.
        decides: Whether the person can decide the request now.
        entries: For a bundle: the requests that it lists. Its `card` is not about any of them, and
            has the id of the bundle instead of an approval's.
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
    decides: bool = True


@dataclass(frozen=True, slots=True)
class Delivered:
    """The channel delivered the message.

    Attributes:
        receipt: The channel's id for the message.
        copy: What happened to the card, if the channel knows: ``reconciled`` (it was already
            there), ``updated`` (rewritten), ``lost`` (it is gone, or cannot be changed).
        shown: For a card: whether it shows the whole call. An approval through a channel that cut,
            folded or left out a part does not count. If a channel does not report this, it can
            approve only short calls.
    """

    receipt: str
    copy: str = ""
    shown: Shown = Shown.UNKNOWN


@dataclass(frozen=True, slots=True)
class Retry:
    """The channel could not deliver now; try again later.

    A message that only waits for its turn does not count as an attempt, and is never given up for
    it.

    Attributes:
        after: The delay that the channel asks for, in seconds; 0 if it asks for none.
        problem: The reason.
        counted: Whether it counts as an attempt.
        unsure: Whether it may have been delivered despite the error; see `Message.unsure`.
    """

    after: float
    problem: str
    counted: bool = True
    unsure: bool = True


@dataclass(frozen=True, slots=True)
class Refused:
    """The channel can never deliver the message; another attempt is useless."""

    reason: str


Result = Delivered | Retry | Refused


class Channel(Protocol):
    """A channel that delivers messages to people."""

    name: str
    """The name in ``deliver.<name>``, in `Asked.channel` and in the audit."""

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Deliver any number of messages of any kind.

        Returns:
            One result for each message, in the same order. A message that cannot be delivered does
            not stop the others. A failure is a result, never an exception.
        """


@dataclass(frozen=True, slots=True)
class LinkMail:
    """A sign-in link, for the person who asked for it.

    Attributes:
        id: Derived from the cause.
        person: The id of the person.
        name: The person's name.
        address: The email address.
        at: The current time (UTC).
        until: When the link expires (UTC).
        link: The link. It signs in the person only in the browser that asked for it.
        browser: The browser that asked, described in our own words.
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
    """Mails sign-in links."""

    async def deliver_links(self, messages: Sequence[LinkMail]) -> list[Result]:
        """Mail a batch of links; see `Channel.deliver`."""


class Pages(Protocol):
    """The pages that messages link to."""

    def link_to(self, approval: str) -> str:
        """Return the URL of an approval, "" if there is no page."""


@runtime_checkable
class Rewriting(Protocol):
    """A channel that rewrites its open cards. Only such a channel gets updates."""

    rewrites: bool


@runtime_checkable
class Bundles(Protocol):
    """A channel that can list several requests in one message. Only such a channel gets bundles.

    If the channel also rewrites, a bundle with a `Message.thread` replaces the message there.
    """

    bundles: bool


@runtime_checkable
class Answering(Protocol):
    """A channel that also takes answers over HTTP."""

    def routes(self, decisions: Decisions) -> APIRouter:
        """Return the routes that the gateway serves for it; they pass answers to `Answers`."""
