"""Renders a message as an email: headers, and equivalent plain text and HTML."""

from __future__ import annotations

import email.policy
from collections.abc import Sequence
from datetime import datetime, timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from html import escape
from typing import Final
from urllib.parse import quote, urlencode

import css_inline
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from signoff.channels.email.inbound.threads import subject_tag
from signoff.channels.email.message_ids import message_id
from signoff.channels.email.parsing.addresses import normal_address
from signoff.channels.email.parsing.incoming import CUT_MARKER
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Kind, LinkMail, Message
from signoff.channels.words.messages import harmless, moment
from signoff.core.approvals.parts import Kind as Asks
from signoff.core.base.counts import counted
from signoff.core.base.errors import MailRefused
from signoff.core.base.shown_text import shortened
from signoff.core.cards.card import Card, Row, one_line, unbroken
from signoff.core.policies.levels import Verdict

_ROOM: Final = 24_000
"""The most bytes of HTML for all arguments together, names and values."""

_MOST_ROWS: Final = 60
"""The most arguments in a mail that does not show all of them."""

_LARGEST: Final = 95_000
"""The most bytes of HTML of a whole card: Gmail cuts off a mail at 102 KB."""

_FRAME: Final = 14_000
_A_ROW: Final = 700
_A_FIELD: Final = 300
_A_LINE: Final = 400
"""Measured bytes of HTML around the content, an argument, a form field, and a remark."""

_LONGEST_HINT: Final = 2_000
_LONGEST_NAME: Final = 200

_BLANK: Final = frozenset({"", "0", "0.0", "null"})
"""The placeholder of a template field that the person must fill in."""

_LONGEST_WORD: Final = 60
_LONGEST_PREHEADER: Final = 140
_LONGEST_ID: Final = 200
_ID_CHARACTERS: Final = frozenset(map(chr, range(0x21, 0x7F))) - frozenset('<>()[]\\,;:"')

# With the default line length of 78, the library encodes long Message-IDs in the header.
_HEADER: Final = email.policy.SMTP.clone(max_line_length=300)
# RFC 2045, section 6.7: quoted-printable lines are not longer, and spam filters check that.
_BODY: Final = email.policy.SMTP.clone(max_line_length=76)

_TEMPLATES: Final = Environment(
    loader=PackageLoader("signoff.channels.email"),
    # Everything except plain text is escaped.
    autoescape=select_autoescape(disabled_extensions=("txt.j2",), default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["harmless"] = harmless
_INLINER: Final = css_inline.CSSInliner(keep_at_rules=True, load_remote_stylesheets=False)


def render(message: Message, settings: EmailSettings, key: bytes = b"") -> EmailMessage:
    """Return a message as an email.

    Text from others gets into a header only as one printable line. Our lines never begin with a
    word that decides: see `signoff.channels.words.messages.harmless`.

    Args:
        message: The message.
        settings: The settings, with the sender.
        key: The key of the code in its Message-ID; see `MessageKey`.

    Returns:
        A multipart/alternative mail. The same message always gets the same Message-ID.

    Raises:
        MailRefused: The address can never receive mail.
    """
    mail = _start_mail(message, settings)
    if message.token:
        mail["Reply-To"] = settings.reply_address(message.token)
    mail["Subject"] = subject(message)
    mail["Message-ID"] = message_id(message.id, message.card.approval, settings.domain, key=key)
    thread = [one for one in (message.thread, message.reply_to) if _is_message_id(one)]
    if thread and message.kind is not Kind.CARD:
        mail["In-Reply-To"] = thread[-1]
        mail["References"] = " ".join(thread)
    return _finish_mail(mail, message.id, plain_text(message, settings), html(message, settings))


def render_link(message: LinkMail, settings: EmailSettings, key: bytes = b"") -> EmailMessage:
    """Return the mail with a sign-in link; see `render`.

    Raises:
        MailRefused: The address can never receive mail.
    """
    mail = _start_mail(message, settings)
    mail["Subject"] = "Sign in to Signoff"
    mail["Message-ID"] = message_id(message.id, "link", settings.domain, key=key)
    context = {"message": message, "until": moment(message.until, message.zone)}
    text, page = (
        _TEMPLATES.get_template(f"link.{kind}.j2").render(context) for kind in ("txt", "html")
    )
    return _finish_mail(mail, message.id, harmless(text), _INLINER.inline(page))


def plain_text(message: Message, settings: EmailSettings) -> str:
    """Return the text part of a message."""
    text = _TEMPLATES.get_template(f"{_template(message)}.txt.j2").render(
        _context(message, settings)
    )
    return _utf8(harmless(text))


def html(message: Message, settings: EmailSettings) -> str:
    """Return the HTML part of a message."""
    text = _TEMPLATES.get_template(f"{_template(message)}.html.j2").render(
        _context(message, settings)
    )
    # Gmail and Outlook drop most of a style sheet, so each element gets its own style.
    return _INLINER.inline(_utf8(text))


def is_whole(card: Card) -> bool:
    """Return whether a mail shows the whole call: neither we nor a mail program cut it."""
    rows = sum(_size(row.name) + _size(row.value) for row in card.rows)
    # The button's link also contains each field, percent-encoded.
    fields = sum(8 * _size(row.name + row.value) + _size(row.note) for row in card.fields)
    said = sum(_size(one.who) + _size(one.text) for one in card.comments)
    said += sum(_size(who) + _size(text) for who, text in card.remarks)
    lines = (*card.warnings, *card.optional, card.progress, card.requester, card.level)
    lines = (*lines, card.escalated, card.similar)
    frame = _FRAME + _A_ROW * len(card.rows) + _A_FIELD * len(card.fields)
    frame += _A_LINE * (len(card.comments) + len(card.warnings) + len(card.remarks))
    texts = 4 * _size(card.title) + _size(card.hint) + said + sum(map(_size, lines))
    return rows <= _ROOM and frame + rows + fields + texts <= _LARGEST


def subject(message: Message) -> str:
    """Return the subject, which is the same in all mails to the approvers, except for "Re:"."""
    card = message.card
    tag = subject_tag(card.approval)
    if message.kind is Kind.BUNDLE:
        return f"{_header(message.headline)} {tag}"
    if message.kind is Kind.STATUS:
        # This mail is not in the thread of the card; its headline begins with the title.
        line = message.headline
        return f"{_header(line) if card.titled else f'{_word(line)} ({_word(card.app)})'} {tag}"
    # The title names the request and the requester.
    words = f"{_header(card.title)} {tag}" if card.titled else f"{_needed(card)} {tag}"
    return words if message.kind is Kind.CARD else f"Re: {words}"


def _needed(card: Card) -> str:
    """Return the subject if the policy has no title: the tool and its first arguments."""
    if card.kind is Asks.INPUT:
        # The title names the agent and its question.
        return f"Answer needed: {_header(card.title)} ({_word(card.app)})"
    first = _header(card.title.removeprefix(card.call))
    return f"Approval needed: {_word(card.tool)}{first} ({_word(card.app)})"


def recipient(message: Message | LinkMail) -> str:
    """Return the address of the envelope, and of the To header.

    Raises:
        MailRefused: It is not an address, or needs an extension that few servers have (RFC 6531).
    """
    address = normal_address(message.address)
    if address is None:
        raise MailRefused(
            f"{message.address!r} of {message.person} is not an address that mail can be sent to; "
            "correct it under [[people]]."
        )
    return address


def _start_mail(message: Message | LinkMail, settings: EmailSettings) -> EmailMessage:
    mail = EmailMessage(policy=_BODY)
    mail["From"] = Address(settings.sender_name, addr_spec=settings.sender_address)
    mail["To"] = Address(_header(message.name)[:100], addr_spec=recipient(message))
    mail["Date"] = format_datetime(message.at)
    # RFC 3834: automatic responders do not answer such mail.
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail["X-Signoff-Loop"] = settings.domain
    return mail


def _finish_mail(mail: EmailMessage, cause: str, text: str, page: str) -> EmailMessage:
    for name, value in mail.items():
        if "\r" in value or "\n" in value:
            raise MailRefused(f"The {name} header of {cause} would have contained a line break.")
    mail.set_content(text, cte="quoted-printable")
    mail.add_alternative(page, subtype="html", cte="quoted-printable")
    mail.policy = _HEADER
    return mail


def mailto(address: str, subject_line: str, body: str) -> str:
    """Return a ``mailto:`` link that opens a prepared mail, ready to send (RFC 6068)."""
    fields = urlencode({"subject": subject_line, "body": body}, quote_via=quote)
    return f"mailto:{quote(address, safe='@+')}?{fields}"


def span(duration: timedelta) -> str:
    """Format a remaining duration roughly, as people do: ``3 h 20 min``."""
    minutes = max(round(duration.total_seconds() / 60), 1)
    hours, rest = divmod(minutes, 60)
    days, left = divmod(hours, 24)
    if days >= 2:
        return f"{days} days"
    if days:
        return f"1 day {left} h" if left else "1 day"
    if hours >= 3 or (hours and not rest):
        return f"{hours + (rest >= 30)} h"
    return f"{hours} h {rest} min" if hours else f"{minutes} min"


def _template(message: Message) -> str:
    if message.kind is Kind.BUNDLE:
        return "bundle"
    return "card" if message.kind is Kind.CARD else "note"


def _context(message: Message, settings: EmailSettings) -> dict[str, object]:
    card = message.card
    fields = [
        row if row.filled or row.value not in _BLANK else row.model_copy(update={"value": ""})
        for row in card.fields
    ]
    values = "".join(f"\r\n{row.name}: {row.value}" for row in fields)
    if Verdict.APPROVE in card.reasons:
        values += "\r\nnote: "
    address = settings.reply_address(message.token) if message.token else ""
    decides = address and message.decides and message.kind not in {Kind.QUESTION, Kind.BUNDLE}
    whole = is_whole(card)
    # With two steps, the confirmation page shows the whole call.
    approves = whole or card.in_two_steps
    reply = f"Re: {subject(message).removeprefix('Re: ')}"
    return {
        "message": message,
        "card": card,
        "rows": card.rows if whole else fit(card.rows),
        "hint": card.hint if whole else shortened(card.hint, _LONGEST_HINT),
        "whole": whole,
        "runs": _runs(card, whole=whole),
        "approves": approves,
        "cut": not (whole or card.in_two_steps),
        "cut_marker": CUT_MARKER,
        "preheader": _preheader(message),
        "until": moment(card.deadline, message.zone),
        "left": _left(card, message.at),
        "paragraphs": [part for part in message.text.split("\n\n") if part.strip()],
        "example": message.example.splitlines(),
        "entries": [
            {"entry": one, "until": moment(one.deadline, message.zone)} for one in message.entries
        ],
        "fields": fields,
        "lone_number": _lone_number(card),
        "comments": [
            {"who": one.who, "at": moment(one.at, message.zone), "text": one.text}
            for one in card.comments
        ],
        "claimed": _claimed(message),
        "offer": card.offer if message.person in card.offer.who else None,
        "approve_link": mailto(address, reply, f"approve{values}") if decides and approves else "",
        "reject_link": mailto(address, reply, "reject: ") if decides else "",
        "offer_link": mailto(address, reply, message.offers) if address and message.offers else "",
        "approve_label": "✓ Answer" if card.kind is Asks.INPUT and card.fields else "✓ Approve",
        "answered": bool(address),
        "sender": settings.sender_address,
    }


def _runs(card: Card, *, whole: bool) -> str:
    """Return the sentence that relates the shown call to the call that will run."""
    if not whole:
        return "The page shows exactly what will run."
    hidden = ", with the values that the policy hides" if card.hides else ""
    return f"What you see is what will run{hidden}."


def _claimed(message: Message) -> str:
    card = message.card
    until = f", until {moment(card.claimed_until, message.zone)}" if card.claimed_until else ""
    return f"{card.claimed}{until}" if card.claimed else ""


def _preheader(message: Message) -> str:
    """Return the preview text beside the subject: the requester and the request."""
    if message.kind is not Kind.CARD:
        return f"{message.headline} {message.text}"[:_LONGEST_PREHEADER]
    card = message.card
    rows = (f"{row.name}: {unbroken(row.value)}" for row in card.rows)
    return " · ".join([f"From {card.requester}", *rows])[:_LONGEST_PREHEADER]


def fit(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return arguments that fit a mail, with a note for omitted ones, which the digest covers.

    The space, in bytes of HTML, is assigned from the shortest value to the longest, so that one
    huge argument does not hide the small ones.
    """
    shown, left_out = rows[:_MOST_ROWS], len(rows) - _MOST_ROWS
    sizes = [_size(row.value) for row in shown]
    allowed: dict[int, int] = {}
    left = _ROOM
    for done, at in enumerate(sorted(range(len(shown)), key=sizes.__getitem__)):
        share = max(left // (len(shown) - done), 0)
        allowed[at] = min(sizes[at], share)
        left -= allowed[at]
    fitted = tuple(_cut(row, sizes[at], allowed[at]) for at, row in enumerate(shown))
    more = (Row(name="…", value=counted(left_out, "more argument")),) if left_out > 0 else ()
    return fitted + more


def _cut(row: Row, size: int, room: int) -> Row:
    name = shortened(row.name, _LONGEST_NAME)
    if size <= room:
        return Row(name=name, value=row.value)
    length = len(row.value) * room // size
    while _size(row.value[:length]) > room:
        length = length * 9 // 10
    return Row(name=name, value=shortened(row.value, length))


def _size(text: str) -> int:
    """Return the size of a text in bytes of HTML."""
    escaped = escape(text, quote=False).encode("utf-8", "backslashreplace")
    return len(escaped) + len("<br>") * text.count("\n")


def _lone_number(card: Card) -> str:
    """Return the name of the only field, if it is a required number."""
    lone = len(card.fields) == 1 and not card.optional and not card.fields[0].filled
    return card.fields[0].name if lone and card.fields[0].value in {"0", "0.0"} else ""


def _left(card: Card, at: datetime) -> str:
    if card.deadline is None or card.deadline <= at:
        return ""
    return f"in {span(card.deadline - at)}"


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _header(text: str) -> str:
    # The library decodes encoded words (RFC 2047) in its input, including line breaks.
    return one_line(text).replace("=?", "= ?")


def _word(text: str) -> str:
    line = _header(text)
    return line if len(line) <= _LONGEST_WORD else f"{line[:_LONGEST_WORD]}…"


def _is_message_id(text: str) -> bool:
    inner = text[1:-1]
    return (
        5 <= len(text) <= _LONGEST_ID
        and text[0] == "<"
        and text[-1] == ">"
        and inner.count("@") == 1
        and set(inner) <= _ID_CHARACTERS
    )
