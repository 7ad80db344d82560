"""Detects mail that a program wrote: bounces, out-of-office replies, lists, reports.

Such mail is never an answer. The signs are those of RFC 3834 (Auto-Submitted), RFC 3464 and RFC
5965 (reports), RFC 5321 section 4.5.5 (the empty return path), and older conventions. One sign is
enough. ``X-Auto-Response-Suppress`` is not a sign: people's mail programs send it too.
"""

from typing import Final

from signoff.channels.email.inbound.bounce_titles import (
    ABSENT,
    AUTO_REPLIES,
    AUTOMATIC_FIELDS,
    FAILED,
    GOES_ON,
    LATER,
    OPENINGS,
    REPORTS,
    ROBOTS,
    STATUSES,
)
from signoff.channels.email.parsing.addresses import parse_addresses
from signoff.channels.email.parsing.mime import Headers, Part, parse_parameters
from signoff.core.base.text import fold

_INVITATIONS: Final = frozenset({"publish", "request"})
"""The methods of calendars that people attach (RFC 5546, section 1.4)."""

_REPORTS: Final = frozenset(
    {
        "multipart/report",
        "message/delivery-status",
        "message/global-delivery-status",
        "message/feedback-report",
        "message/disposition-notification",
    }
)
_PRECEDENCES: Final = frozenset({"bulk", "list", "junk", "auto_reply", "auto-reply"})
_TITLES: Final = (*AUTO_REPLIES, *FAILED, *LATER, *REPORTS)
_WEAK_TITLES: Final = (*ABSENT, *STATUSES)
_LONGEST_TITLE: Final = 200
_OPENERS: Final = "[({<*_#\"'【〔「-=: "
_NOTHING_SAID: Final = "*-=_#>| \t"


def automatic_sign(mail: Part, subject: str, text: str = "") -> str:
    """Return the sign by which a mail is automatic, or "" for a person's mail.

    Args:
        mail: The parsed mail.
        subject: Its decoded subject.
        text: The author's own text, without quotations.

    Returns:
        The sign in words for the log, such as ``Auto-Submitted: auto-replied``.
    """
    headers = mail.headers
    return (
        _field_sign(headers)
        or next((f"a {part.media_type} part" for part in mail.walk() if _is_report(part)), "")
        or _sender_sign(headers)
        or _subject_sign(subject)
        or _text_sign(text)
    )


def is_titled(subject: str, signs: tuple[str, ...], weak: tuple[str, ...] = ()) -> str:
    """Return the sign at the beginning of a subject, or "".

    Only a subject that begins like a notice is a sign: a reply to a notice begins with "Re:".

    Args:
        subject: The decoded subject.
        signs: The signs as `folded` returns them; any text may follow.
        weak: Signs that a person may also write: only a punctuation mark, a number, or a
            continuation that programs use may follow.
    """
    plain = fold(subject[:_LONGEST_TITLE]).removeprefix("[postmaster] ").lstrip(_OPENERS)
    found = next((sign for sign in signs if plain.startswith(sign)), "")
    if found:
        return found
    return next(
        (sign for sign in weak if plain.startswith(sign) and _goes_on(plain[len(sign) :])), ""
    )


def _goes_on(rest: str) -> bool:
    rest = rest.lstrip()
    if not rest or not rest[0].isalpha():
        return True
    word = next((rest[:at] for at, mark in enumerate(rest) if not mark.isalpha()), rest)
    return word in GOES_ON


def is_of_a_rule(headers: Headers) -> bool:
    """Return whether Exchange marks it as sent by a mailbox rule, such as an absence reply."""
    source = headers.first("x-ms-exchange-generated-message-source").lower()
    return source.startswith("mailbox rules agent")


def _is_report(part: Part) -> bool:
    # The calendar's "Accepted" is about a meeting (RFC 6047, section 2.4). People attach
    # invitations.
    method = part.parameters.get("method", "").lower()
    invitation = part.attached and method in _INVITATIONS
    calendar = part.media_type == "text/calendar" and bool(method) and not invitation
    return part.media_type in _REPORTS or calendar


def _field_sign(headers: Headers) -> str:
    for value in headers.every("auto-submitted"):
        # The value may have parameters and comments (RFC 3834 section 5.2).
        keyword = parse_parameters(value)[0].partition("(")[0].strip()
        if keyword != "no":
            return f"Auto-Submitted: {keyword[:40]}"
    for value in headers.every("return-path"):
        if value.replace(" ", "") == "<>":
            return "Return-Path: <>"
    for value in headers.every("precedence"):
        if value.strip().lower() in _PRECEDENCES:
            return f"Precedence: {value.strip().lower()}"
    if is_of_a_rule(headers):
        return "a rule of the mailbox wrote it"
    return next((f"{name} is set" for name in AUTOMATIC_FIELDS if headers.every(name)), "")


def _sender_sign(headers: Headers) -> str:
    for value in headers.every("from"):
        for address in parse_addresses(value).addresses:
            local = address.rpartition("@")[0].lower()
            if local in ROBOTS or local.startswith(("mailer-daemon", "bounce+", "bounces+")):
                return f"From: {local}"
            if local.startswith(("no-reply", "noreply", "donotreply", "do-not-reply")):
                return f"From: {local}"
        plain = value.lower()
        if "mailer-daemon" in plain or "mail delivery s" in plain or "<postmaster" in plain:
            return "From: mailer-daemon"
    return ""


def _subject_sign(subject: str) -> str:
    found = is_titled(subject, _TITLES, _WEAK_TITLES)
    return f"Subject: {found}" if found else ""


def _text_sign(text: str) -> str:
    for line in text[:4_000].splitlines():
        plain = fold(line[:_LONGEST_TITLE]).lstrip(_NOTHING_SAID)
        if plain:
            found = next((one for one in OPENINGS if plain.startswith(one)), "")
            return f"it begins: {found}" if found else ""
    return ""
