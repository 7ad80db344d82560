"""A mail as it was read, without what reads it: the parsers run in processes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from signoff.channels.email.parsing.addresses import plus_parts

CUT_MARKER: Final = "──── reply above this line ────"
"""The line in our own mails below which nothing is the person's."""


class Sort(StrEnum):
    """What an automatic mail means for a delivery."""

    RETURNED = "returned"
    """It never arrived."""
    DELAYED = "delayed"
    """It is still under way."""
    AWAY = "away"
    """It arrived; a programme has answered in the person's place."""
    OTHER = "other"
    """Nothing: lists, receipts, complaints, tidings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMail:
    """A mail, read.

    Attributes:
        message_id: Its Message-ID with the angle brackets, or "".
        from_addresses: Every address found in every From field, domains in lower case.
        sender: The one author, or None unless there is exactly one From field with exactly one
            address that can be read in one way only. Not authenticated.
        subject: The decoded subject on one line.
        date: When the sender says it was sent, in UTC; None when unreadable.
        in_reply_to: The Message-ID it answers, or "".
        references: The Message-IDs of its thread, the eldest first.
        recipients: Every address in To, Cc, Delivered-To, X-Original-To and Envelope-To.
        automatic: The sign that no person wrote it, or "".
        sort: What it means for the card it came upon, where no person wrote it.
        returned: The Message-IDs it brings back or answers, where no person wrote it.
        own_text: What the person wrote and is read as an answer; quoted mail and signature are cut.
        reply: The same as it was meant to be read, with what the person quoted by hand.
        text_as_sent: ``own_text`` before the lines that we sent are taken out of it: two copies of
            a mail share it, whatever the card says by then.
        doubt_as_sent: Whether that was in doubt.
        doubt: Why it is not certain that ``own_text`` is what the person wrote, in a sentence for
            them, or "". An answer in doubt decides nothing.
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
    """Return the reply tokens a mail was sent to.

    Args:
        recipients: Of the mail; see `IncomingMail`.
        mailbox: Our plain address, such as ``approvals@signoff.example``.

    Returns:
        The 26-letter base32 tokens T of recipients ``approvals+T@signoff.example``, in lower case
        and each once. They are secrets: redact them in logs.
    """
    return plus_parts(tuple(recipients), mailbox)
