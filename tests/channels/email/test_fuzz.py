"""Damaged mail is read or refused, and is never taken for an approval.

A run reads a part of some hundred messages, and `make soak` reads the rest; with
``SIGNOFF_FUZZ=100000`` there are that many. The same number gives the same messages again.
"""

from __future__ import annotations

import base64
import os
import quopri
import random
from collections.abc import Callable, Iterator

import pytest
from pydantic import JsonValue

from answered import Verdict
from channels.email.clients import WORDS, marked
from channels.email.test_clients import MAILS, NOTICE, NUMBER, SETTINGS
from signoff.channels.email.explain import explain_mail
from signoff.channels.email.outbound.render import html, render
from signoff.channels.email.parsing.reading import read_mail
from signoff.core.base.errors import UnreadableMail
from signoff.core.replies.text import ReplyContext

MESSAGES = int(os.environ.get("SIGNOFF_FUZZ", "800"))
SHARDS = 4
TEMPLATE: JsonValue = {"approved_days": 0}
HEAD = (
    "From: Mara Lind <mara@example.com>\r\nTo: approvals+aaaabbbbccccddddeeeeffff22@signoff.example"
    "\r\nSubject: =?utf-8?B?UmU6IEFwcHJvdmFs?= needed\r\nDate: Mon, 2 Mar 2026 10:00:00 +0100\r\n"
    "Message-ID: <a@example.com>\r\nReferences: <b@signoff.example> <c@signoff.example>\r\n"
)
TOKENS = (
    *(
        b"\0",
        b"\r",
        b"\n",
        b"\r\n\r\n",
        b"\xff\xfe",
        b"\xe2\x80\xae",
        b"\xed\xa0\x80",
        b"=",
        b"=\r\n",
    ),
    *(
        b"(" * 5_000,
        b"<" * 3_000,
        b">" * 3_000,
        b'"' * 999,
        b"a" * 9_000,
        b"-" * 9_000,
        b"\n" * 9_000,
    ),
    *(b"On " + b"a " * 3_000, b"> " * 500, b"=?utf-8?q?" * 300, b"=?x?b?====?=", b";a*0*=b'" * 200),
    *(
        b"Content-Type: multipart/mixed; boundary=x\r\n",
        b"\r\n--x\r\n",
        b"\r\n--x--\r\n",
        b"--x" * 99,
    ),
    *(b"Content-Type: message/rfc822\r\n", b"Content-Type: text/html; charset=utf-7\r\n", b": "),
    *(b"Content-Transfer-Encoding: base64\r\n", b"Content-Transfer-Encoding: x-uuencode\r\n"),
    *(b"charset=punycode", b"charset=utf-16", b"charset=iso-2022-jp", b"charset=idna", b"charset="),
    *(b"From: a@b, c@d\r\n", b"From: a:b;\r\n", b"<div>" * 999, b"</div>", b"<!--", b"<td>" * 999),
    *(b"<div style='display:none'>", b"<blockquote>", b"&#x110000;", b"&#0;", b"\x1b$B", b"wrote:"),
    *(b"-----Original Message-----", b"________________________________", b"begin 644 x\r\n"),
)


def written(text: str, kind: str = "plain", encoding: str = "8bit") -> bytes:
    """Return a message of one part."""
    body = text.encode()
    if encoding == "base64":
        body = base64.encodebytes(body)
    elif encoding == "quoted-printable":
        body = quopri.encodestring(body)
    head = f"Content-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n"
    return (HEAD + head + "\r\n").encode() + body


def seeds(above: str) -> list[bytes]:
    """Return messages of many forms that begin with these words and quote our mail."""
    attribution = "On Mon, Mar 2, 2026 at 10:00 AM Signoff <approvals@signoff.example> wrote:"
    text = f"{above}\n\n{attribution}\n\n{marked(MAILS['number'])}"
    page = (
        f"<div>{above}</div><div class=gmail_quote>{attribution}<blockquote>{{}}</blockquote></div>"
    )
    markup = page.format(html(NUMBER, SETTINGS))
    parts = "".join(
        f"--x\r\nContent-Type: text/{kind}; charset=utf-8\r\n\r\n{body}\r\n"
        for kind, body in (("plain", text), ("html", markup))
    )
    several = f"Content-Type: multipart/alternative; boundary=x\r\n\r\n{parts}--x--\r\n"
    nested = f"Content-Type: multipart/mixed; boundary=y\r\n\r\n--y\r\n{several}\r\n--y--\r\n"
    shapes = [written(text, encoding=one) for one in ("8bit", "base64", "quoted-printable")]
    shapes += [written(markup, "html"), written(markup, "html", "base64")]
    return [*shapes, (HEAD + several).encode(), (HEAD + nested).encode()]


def changes(
    dice: random.Random, other: bytes, *, words: bool
) -> Iterator[Callable[[bytearray], object]]:
    """Yield ways to damage a message; some may leave other ``words`` than the original."""

    def place(raw: bytearray) -> int:
        return dice.randrange(len(raw) + 1)

    def flip(raw: bytearray) -> None:
        for _ in range(dice.randrange(1, 30)):
            at = dice.randrange(len(raw))
            raw[at] = dice.randrange(256)

    def cut(raw: bytearray) -> None:
        start = place(raw)
        del raw[start : start + dice.randrange(1, 400)]

    def repeat(raw: bytearray) -> None:
        start = place(raw)
        raw[start:start] = raw[start : start + dice.randrange(1, 200)] * dice.randrange(1, 40)

    def insert(raw: bytearray) -> None:
        start = place(raw)
        token = dice.choice(TOKENS)
        raw[start:start] = token if words else token.replace(b"\n", b" ")

    def splice(raw: bytearray) -> None:
        at = dice.randrange(len(other))
        raw[place(raw) :] = other[at if words else other.rfind(b"\n", 0, at) + 1 :]

    def shuffle(raw: bytearray) -> None:
        lines = raw.split(b"\n")
        at, to = dice.randrange(len(lines)), dice.randrange(len(lines))
        lines[at], lines[to] = lines[to], lines[at]
        raw[:] = b"\n".join(lines)

    def truncate(raw: bytearray) -> None:
        del raw[place(raw) :]

    yield from (flip, insert, splice, truncate)
    if words:
        # Cutting the first half of "To say yes: approve" leaves "approve".
        yield from (cut, insert, repeat, shuffle)


def damaged(dice: random.Random, *, silent: bool) -> bytes:
    """Return one of the messages, damaged a few times."""
    sources = SILENT if silent else [*SPOKEN, *SILENT]
    raw = bytearray(dice.choice(sources))
    ways = list(changes(dice, dice.choice(sources), words=not silent))
    for _ in range(dice.randrange(1, 5)):
        dice.choice(ways)(raw)
        raw = raw or bytearray(b"x")
    return bytes(raw)


SILENT = [
    *seeds(""),
    *seeds("Sent from my iPhone"),
    *(render(one, SETTINGS).as_bytes() for one in (NUMBER, NOTICE)),
]
"""Messages without any words of a person."""

SPOKEN = [seed for pair in WORDS.values() for words in pair for seed in seeds(words)]
"""Messages that are answers."""


@pytest.mark.timeout(0 if MESSAGES > 5_000 else 120)
@pytest.mark.parametrize(
    "shard", [0, 1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, SHARDS))]
)
def test_damaged_mail_is_read_or_refused(shard: int) -> None:
    """Only declared errors are raised, and a message without words never approves."""
    for number in range(shard, MESSAGES, SHARDS):
        dice = random.Random(number)
        silent = number % 2 == 0
        raw = damaged(dice, silent=silent)
        try:
            template: JsonValue = TEMPLATE if number % 3 else None
            read = explain_mail(read_mail(raw), ReplyContext(fields=template))
        except UnreadableMail:
            read = None
        if read is not None and silent:
            assert read.verdict != Verdict.APPROVE, number
