"""Reads the bytes of a mail into an `IncomingMail`. Nothing is decided here.

The sender chooses these bytes, so this module is the trust boundary: limits are checked before
parsing, every step is linear, and every exception of a parser becomes ``UnreadableMail``.
"""

import email.errors
import email.header
import email.utils
import unicodedata
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Final

from signoff.channels.email.inbound.automatic import automatic_sign
from signoff.channels.email.inbound.bounces import returned_ids, sort_of
from signoff.channels.email.parsing.addresses import parse_addresses
from signoff.channels.email.parsing.alternatives import own_words_in, read_forms
from signoff.channels.email.parsing.incoming import CUT_MARKER, IncomingMail, Sort, tokens_in
from signoff.channels.email.parsing.mime import Headers, Part, parse_mail
from signoff.core.base.errors import UnreadableMail

__all__ = ["CUT_MARKER", "IncomingMail", "read_mail", "tokens_in"]

_RECIPIENT_FIELDS: Final = ("to", "cc", "delivered-to", "x-original-to", "envelope-to")
_MOST_RECIPIENTS: Final = 500
_MOST_REFERENCES: Final = 100
_LONGEST_ID: Final = 998  # RFC 5322 section 2.1.1: no line is longer
_LONGEST_SUBJECT: Final = 998
_LONGEST_REFERENCES: Final = 8_192  # no field is longer (`read_mail`)
_LONGEST_DATE: Final = 128
_MOST_NAMES: Final = 20
_ENCRYPTED: Final = frozenset(
    {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
)
_TNEF: Final = "application/ms-tnef"
_FOREIGN_ERRORS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError),
    *(ValueError, email.errors.MessageError),
)


SentLines = Collection[str] | Callable[[tuple[str, ...]], Collection[str]]
"""Lines that we sent, or a function that returns them for the recipients of the mail."""


def read_mail(raw: bytes, sent_lines: SentLines = ()) -> IncomingMail:
    """Read a mail.

    Args:
        raw: The message as it was received.
        sent_lines: Lines that we sent, which never count as the person's; or a function that
            returns them for the recipients, which identify the card. They must not contain a line
            with which somebody would answer.

    Returns:
        The content of the mail, not authenticated.

    Raises:
        MailTooLarge: It exceeds a limit: 1 MiB, 64 KB of headers, 8 KB a field, 50 parts, depth 10.
        UnreadableMail: It cannot be parsed.
    """
    try:
        return _read(raw, sent_lines)
    except _FOREIGN_ERRORS as error:
        raise UnreadableMail(
            f"The message cannot be read ({type(error).__name__}: {error}); it was not processed."
        ) from error


def _read(raw: bytes, sent_lines: SentLines) -> IncomingMail:
    mail = parse_mail(raw)
    headers = mail.headers
    subject = _decoded(headers.first("subject"))
    authors = [parse_addresses(value) for value in headers.every("from")]
    single = len(authors) == 1 and authors[0].certain and len(authors[0].addresses) == 1
    recipients = _recipients(headers)
    # Before the slow part: the caller keeps the order of mails to the same recipients.
    lines = sent_lines(recipients) if callable(sent_lines) else sent_lines
    names, forms = _names(headers), read_forms(mail)
    plain = own_words_in(mail, forms, (), names)
    said = own_words_in(mail, forms, lines, names) if lines else plain
    automatic = automatic_sign(mail, subject, plain.reply.answer)
    return IncomingMail(
        message_id=next(_message_ids(headers.first("message-id")), ""),
        from_addresses=tuple(address for author in authors for address in author.addresses),
        sender=authors[0].addresses[0] if single and not headers.broken else None,
        subject=subject,
        date=_date(headers.first("date")),
        in_reply_to=next(_message_ids(headers.first("in-reply-to")), ""),
        references=tuple(_message_ids(headers.first("references"))),
        recipients=recipients,
        automatic=automatic,
        sort=sort_of(mail, subject, said.text) if automatic else Sort.OTHER,
        returned=returned_ids(mail) if automatic else (),
        own_text=said.reply.answer,
        reply=said.reply.shown,
        text_as_sent=plain.reply.answer,
        doubt_as_sent=bool(plain.doubt),
        doubt=said.doubt or ("" if said.reply.answer else _unreadable(mail)),
    )


def _unreadable(mail: Part) -> str:
    """Return why a mail without words cannot be read, "" if it has none."""
    types = {part.media_type for part in mail.walk()}
    if types & _ENCRYPTED:
        return (
            "Your mail is encrypted, or signed in a form that only mail programs can open. Send "
            "your answer without encryption."
        )
    if _TNEF in types:
        return (
            "Your mail has its text only in a winmail.dat, which only Outlook can open. Send your "
            "answer as plain text."
        )
    return ""


def _recipients(headers: Headers) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in _RECIPIENT_FIELDS:
        for value in headers.every(name):
            found.update(dict.fromkeys(parse_addresses(value).addresses))
            if len(found) >= _MOST_RECIPIENTS:
                break
    return tuple(found)[:_MOST_RECIPIENTS]


def _message_ids(value: str) -> Iterator[str]:
    """Yield a limited number of ids in angle brackets (RFC 5322 section 3.6.4)."""
    if "=?" in value:
        # RFC 2047 (section 5) forbids encoded words here, and programs in Python write them.
        value = _decoded(value, _LONGEST_REFERENCES)
    at = 0
    for _ in range(_MOST_REFERENCES):
        start = value.find("<", at)
        end = value.find(">", start) if start >= 0 else -1
        if end < 0:
            return
        at = end + 1
        if end - start < _LONGEST_ID:
            yield "".join(value[start:at].split())


def _date(value: str) -> datetime | None:
    try:
        date = email.utils.parsedate_to_datetime(value[:_LONGEST_DATE])
        return date.replace(tzinfo=date.tzinfo or UTC).astimezone(UTC)
    except (*_FOREIGN_ERRORS, OSError):
        return None


def _decoded(value: str, longest: int = _LONGEST_SUBJECT) -> str:
    """Decode the encoded words of a field (RFC 2047); invalid ones stay unchanged."""
    try:
        text = str(email.header.make_header(email.header.decode_header(value[:longest])))
    except _FOREIGN_ERRORS:
        text = value[:longest]
    seen = (" " if unicodedata.category(mark) in ("Cc", "Cs") else mark for mark in text)
    return " ".join("".join(seen).split())


def _names(headers: Headers) -> frozenset[str]:
    """Return the words of the author's name in the mail and of the address."""
    value = _decoded(headers.first("from"))
    name, _, address = value.rpartition("<")
    local = address.partition("@")[0]
    words = "".join(mark if mark.isalnum() else " " for mark in f"{name} {local}".casefold())
    return frozenset(words.split()[:_MOST_NAMES])
