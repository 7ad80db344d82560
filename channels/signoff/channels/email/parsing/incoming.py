"""The result of reading a mail, without the parsers, which run in separate processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from signoff.channels.email.parsing.addresses import plus_parts

CUT_MARKER: Final = "──── reply above this line ────"
"""The line in our mails below which the person wrote nothing."""


class Sort(StrEnum):
    """The meaning of an automatic mail for a delivery."""

    RETURNED = "returned"
    """The card was not delivered."""
    DELAYED = "delayed"
    """The card is delayed."""
    AWAY = "away"
    """The card was delivered, and an out-of-office reply came back."""
    OTHER = "other"
    """No meaning: lists, receipts, complaints, newsletters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMail:
    """The result of reading a mail.

    Attributes:
        message_id: The Message-ID with angle brackets, or "".
        from_addresses: All addresses in all From fields, with domains in lower case.
        sender: The author if there is exactly one From field with exactly one unambiguous address,
            else None. Not authenticated.
        subject: The decoded subject on one line.
        date: The sender's date in UTC; None if it is unreadable.
        in_reply_to: The Message-ID it answers, or "".
        references: The Message-IDs of its thread, the oldest first.
        recipients: All addresses in To, Cc, Delivered-To, X-Original-To and Envelope-To.
        automatic: The sign that a program wrote it, or "".
        sort: For an automatic mail: its meaning for the card.
        returned: For an automatic mail: the Message-IDs that it returns or answers.
        own_text: The person's text that is read as an answer, without quoted mail and signature.
        reply: The text for people to read, including what the person quoted by hand.
        text_as_sent: ``own_text`` before our own lines are removed. Two copies of a mail share it,
            even if the card changes in between.
        doubt_as_sent: Whether ``text_as_sent`` is in doubt.
        doubt: Why it is uncertain that the person wrote ``own_text``, in a sentence for them, or
            "". An answer in doubt decides nothing.
    """

    message_id: str
    from_addresses: tuple[str, ...]
    sender: str | None
    subject: str
    date: datetime | None
    in_reply_to: str
    references: tuple[str, ...]
    recipients: tuple[str, ...]
    automatic: str
    sort: Sort
    returned: tuple[str, ...]
    own_text: str
    reply: str
    text_as_sent: str
    doubt_as_sent: bool = False
    doubt: str = ""


def tokens_in(recipients: Sequence[str], mailbox: str) -> tuple[str, ...]:
    """Return the reply tokens to which a mail was sent.

    Args:
        recipients: The recipients of the mail; see `IncomingMail`.
        mailbox: Our plain address, such as ``approvals@signoff.example``.

    Returns:
        The 26-letter base32 tokens T of recipients ``approvals+T@signoff.example``, in lower case
        and without duplicates. They are secrets: redact them in logs.
    """
    return plus_parts(tuple(recipients), mailbox)
