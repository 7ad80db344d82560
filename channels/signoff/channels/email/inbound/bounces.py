"""Classifies an automatic mail about a card: bounced, delayed, out of office, or other.

Anybody can forge such a mail, so it decides nothing: at worst, one more person is asked, or the
audit has one more entry.
"""

from collections.abc import Iterator
from typing import Final

from signoff.channels.email.inbound.automatic import is_of_a_rule, is_titled
from signoff.channels.email.inbound.bounce_titles import (
    ABSENT,
    AUTO_REPLIES,
    FAILED,
    FAILED_IN_REPORT,
    GIVEN_UP,
    LATER,
    NOT_YET,
    REPLY_FIELDS,
    REPORTERS,
)
from signoff.channels.email.parsing.incoming import Sort
from signoff.channels.email.parsing.mime import Part, parse_parameters
from signoff.core.base.text import fold

_STATUS_TYPES: Final = frozenset({"message/delivery-status", "message/global-delivery-status"})
_RETURNED_TYPES: Final = frozenset(
    {"message/rfc822", "text/rfc822-headers", "message/rfc822-headers", "message/global"}
)
_LONGEST_STATUS: Final = 16 * 1024
_LONGEST_SCAN: Final = 64 * 1024
_MOST_RETURNED: Final = 5
_LONGEST_ID: Final = 998


def sort_of(mail: Part, subject: str, text: str) -> Sort:
    """Return the meaning of an automatic mail for its card.

    The Action and Status of a delivery status decide (RFC 3464, sections 2.3.3 and 2.3.4). Without
    one, for example from qmail and Exim, the title and the words of the mail decide.

    Args:
        mail: The parsed mail, in which `automatic_sign` found a sign.
        subject: Its decoded subject.
        text: Its text.
    """
    statuses = [part for part in mail.walk() if part.media_type in _STATUS_TYPES]
    if statuses:
        return _by_status(statuses)
    reports = {"message/feedback-report", "message/disposition-notification"}
    if reports & {part.media_type for part in mail.walk()} or mail.headers.every("list-id"):
        return Sort.OTHER
    return _by_words(mail, subject, text)


def returned_ids(mail: Part) -> tuple[str, ...]:
    """Return the Message-IDs of the mails that a report is about, or that a reply answers.

    They are in the headers that the report returns, as a part or in its text.
    """
    fields = [*mail.headers.every("in-reply-to"), *mail.headers.every("references")]
    for part in mail.walk():
        if part.media_type in _RETURNED_TYPES or not part.children:
            body = part.body[:_LONGEST_SCAN].decode("latin-1")
            if part.headers.first("content-transfer-encoding").strip().lower() not in {"", "7bit"}:
                body = part.text()[:_LONGEST_SCAN]
            fields += [line[11:] for line in body.splitlines() if _names_a_mail(line)]
        if len(fields) > _MOST_RETURNED * 4:
            break
    found = (one for field in fields for one in _ids(field))
    return tuple(dict.fromkeys(found))[:_MOST_RETURNED]


def _names_a_mail(line: str) -> bool:
    return line[:11].lower() == "message-id:"


def _ids(field: str) -> Iterator[str]:
    for piece in field[:_LONGEST_ID].split("<")[1:]:
        inner, closed, _ = piece.partition(">")
        if closed and "@" in inner:
            yield f"<{inner.strip()}>"


def _by_status(statuses: list[Part]) -> Sort:
    sorts = {_of_recipient(group) for part in statuses for group in _groups(part)}
    order = (Sort.RETURNED, Sort.DELAYED)
    return next((sort for sort in order if sort in sorts), Sort.OTHER)


def _groups(part: Part) -> Iterator[dict[str, str]]:
    """Yield the fields of each recipient; the first group, about the message, has no Action."""
    text = part.text()[:_LONGEST_STATUS]
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.splitlines():
            name, colon, value = line.partition(":")
            if colon and not line[:1].isspace():
                fields.setdefault(name.strip().lower(), value.strip())
        yield fields


def _of_recipient(fields: dict[str, str]) -> Sort:
    action = parse_parameters(fields.get("action", ""))[0].partition(" ")[0]
    status = fields.get("status", "")[:2]
    if action == "failed" or (not action and status == "5."):
        return Sort.RETURNED
    if action == "delayed" or (not action and status == "4."):
        return Sort.DELAYED
    return Sort.OTHER


def _by_words(mail: Part, subject: str, text: str) -> Sort:
    headers = mail.headers
    author = headers.first("from").lower()
    if headers.every("x-failed-recipients") or any(word in author for word in REPORTERS):
        return _of_report(subject, text, known=bool(headers.every("x-failed-recipients")))
    if is_titled(subject, (*FAILED, *FAILED_IN_REPORT, *LATER)):
        return _of_report(subject, text, known=False)
    if headers.every("list-id"):
        return Sort.OTHER
    if _is_replied(mail) or is_titled(subject, AUTO_REPLIES, ABSENT):
        return Sort.AWAY
    # RFC 3834, section 3.3: out-of-office replies use the empty return path, too.
    if any(value.replace(" ", "") == "<>" for value in headers.every("return-path")):
        found = _of_report(subject, text, known=False)
        return found if found is not Sort.OTHER else Sort.AWAY
    return Sort.OTHER


def _of_report(subject: str, text: str, *, known: bool) -> Sort:
    """Classify the report of a mail system; `known` if it is known to be about a failure."""
    plain = fold(text[:_LONGEST_SCAN])
    if is_titled(subject, LATER) or any(word in plain for word in NOT_YET):
        return Sort.DELAYED
    failed = (
        known
        or is_titled(subject, (*FAILED, *FAILED_IN_REPORT))
        or any(word in plain for word in GIVEN_UP)
    )
    return Sort.RETURNED if failed else Sort.OTHER


def _is_replied(mail: Part) -> bool:
    headers = mail.headers
    return (
        any(parse_parameters(one)[0] == "auto-replied" for one in headers.every("auto-submitted"))
        or headers.first("precedence").strip().lower().replace("-", "_") == "auto_reply"
        or any(headers.every(name) for name in REPLY_FIELDS)
        or is_of_a_rule(headers)
    )
