"""``python -m benchmarks.layouts``: the cost of hostile mails of one MiB, and its growth.

Each layout is read at a tenth of its size and at its full size, in separate processes, as the
intake and `signoff mail explain` read it: first the parser, then the text. The ratio is important:
ten times the text should cost about ten times as much, or less if it is cut.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from pydantic import JsonValue
from rich.console import Console
from rich.table import Table

from signoff.channels.email.explain import explain_mail, mail_of_text
from signoff.channels.email.parsing.mime import LARGEST_MAIL
from signoff.channels.email.parsing.reading import read_mail
from signoff.core.base.errors import UnreadableMail
from signoff.core.replies.text import ReplyContext

_HEAD: Final = (
    b"From: Mara Lind <mara@example.com>\r\nTo: approvals@signoff.example\r\n"
    b"Subject: Re: Approval needed\r\nMessage-ID: <a@example.com>\r\nMIME-Version: 1.0\r\n"
)
_FIELDS: Final[JsonValue] = {"amount": 0, "approved_days": 0, "account": ""}
_SPARE: Final = 2_048


def plain(text: str, *, encoding: str = "8bit") -> bytes:
    """Return a mail of one text part."""
    return _part(text, "plain", encoding)


def html(text: str) -> bytes:
    """Return a mail of one HTML part."""
    return _part(text, "html", "8bit")


def _part(text: str, kind: str, encoding: str) -> bytes:
    body = text.encode()
    if encoding == "base64":
        body = base64.encodebytes(body)
    head = f"Content-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}"
    return _HEAD + head.encode() + b"\r\n\r\n" + body


def _fill(unit: str, size: int) -> str:
    return unit * (size // len(unit.encode()))


def _nested(opening: str, closing: str, size: int) -> str:
    count = size // len((opening + closing).encode())
    return opening * count + "approve" + closing * count


def _boundaries(size: int) -> bytes:
    """Return nested parts."""
    depth = size // 120
    heads = (
        f'Content-Type: multipart/mixed; boundary="b{at}"\r\n\r\n--b{at}\r\n' for at in range(depth)
    )
    return _HEAD + "".join(heads).encode() + b"Content-Type: text/plain\r\n\r\napprove\r\n"


def _parts(size: int) -> bytes:
    one = "--b\r\nContent-Type: text/plain\r\n\r\napprove\r\n"
    head = b'Content-Type: multipart/alternative; boundary="b"\r\n\r\n'
    return _HEAD + head + _fill(one, size).encode() + b"--b--\r\n"


LAYOUTS: Final[dict[str, Callable[[int], bytes]]] = {
    "quote markers, one line": lambda size: plain("approve\n" + _fill("> ", size)),
    "quote markers, deeper and deeper": lambda size: plain(
        "approve\n" + "\n".join("> " * (at % 400) + "ok" for at in range(size // 400))
    ),
    "quote markers without spaces": lambda size: plain("approve\n" + _fill(">", size)),
    "quote lines": lambda size: plain("approve\n" + _fill("> ok\n", size)),
    "zero-width joiners in base64": lambda size: plain(
        "approve" + _fill("\u200d", size * 7 // 10), encoding="base64"
    ),
    "zero-width joiners between letters": lambda size: plain(
        _fill("a\u200d", size * 7 // 10), encoding="base64"
    ),
    "combining marks": lambda size: plain("approve" + _fill("\u0301", size)),
    "attribution": lambda size: plain("On " + _fill("a ", size)),
    "attributions": lambda size: plain(_fill("On Monday, Tom wrote:\n", size)),
    "header lines in the text": lambda size: plain(_fill("From: Tom <tom@example.com>\n", size)),
    "yes": lambda size: plain(_fill("yes ", size)),
    "yes, in one word": lambda size: plain(_fill("yes", size)),
    "はい": lambda size: plain(_fill("はい", size)),
    "同意": lambda size: plain(_fill("同意", size)),
    "네": lambda size: plain(_fill("네 ", size)),
    "lines of yes": lambda size: plain(_fill("yes\n", size)),
    "lines of sorry": lambda size: plain("no\n" + _fill("sorry\n", size)),
    "lines of thanks": lambda size: plain("yes\n" + _fill("thanks\n", size)),
    "note lines": lambda size: plain("yes\n" + _fill("note: a\n", size)),
    "values": lambda size: plain("yes\n" + _fill("amount=1 ", size)),
    "numbers": lambda size: plain("yes " + _fill("1 ", size)),
    "names": lambda size: plain("yes\nregards\n" + _fill("Mara Lind ", size)),
    "dashes": lambda size: plain("yes\n" + _fill("-", size)),
    "dash lines": lambda size: plain("yes\n" + _fill("--\n", size)),
    "device lines": lambda size: plain("yes\n" + _fill("Sent from my iPhone\n", size)),
    "empty lines": lambda size: plain("yes" + _fill("\n", size)),
    "spaces": lambda size: plain("yes" + _fill(" ", size) + "no"),
    "brackets": lambda size: plain(_fill("(", size)),
    "links": lambda size: plain("yes\n" + _fill("<https://a.example/> ", size)),
    "nested tables": lambda size: html(_nested("<table><tr><td>", "</td></tr></table>", size)),
    "nested divisions": lambda size: html(_nested("<div>", "</div>", size)),
    "nested quotes": lambda size: html("approve" + _nested("<blockquote>", "</blockquote>", size)),
    "open tags": lambda size: html(_fill("<b>", size) + "approve"),
    "one wide row": lambda size: html(f"<table><tr>{_fill('<td>a', size)}</table>"),
    "many rows": lambda size: html(f"<table>{_fill('<tr><td>a<td>b', size)}</table>"),
    "margins": lambda size: html(_fill("<p style='margin-top:999999em'>a", size)),
    "one long style": lambda size: html(f"<p style='{_fill('color:red;', size)}'>approve"),
    "style rules": lambda size: html(f"<style>{_fill('.a{display:none}', size)}</style>approve"),
    "classes and rules": lambda size: html(
        "<style>"
        + "".join(f".c{at}{{color:red}}" for at in range(size // 60))
        + "</style>"
        + "".join(f"<p class=c{at}>a" for at in range(size // 60))
    ),
    "entities": lambda size: html(_fill("&amp;", size)),
    "comments": lambda size: html("approve" + _fill("<!---->", size)),
    "attributes": lambda size: html(f"<p {_fill('a=b ', size)}>approve</p>"),
    "entities of a document type": lambda size: html(
        "<!DOCTYPE" + _fill("[<!ENTITY a 'b'>", size) + "approve"
    ),
    "open brackets of tags": lambda size: html(_fill("<", size)),
    "hidden words": lambda size: html(
        "<div style='color:white'>" * 250 + _fill("<font color=white>y</font>", size - 8_000)
    ),
    "cuts": lambda size: html(_fill("<div id=appendonsend></div>", size)),
    "parts in parts": _boundaries,
    "many parts": _parts,
    "one header": lambda size: _HEAD + b"X: " + b"a " * (size // 2) + b"\r\n\r\napprove",
    "folded header": lambda size: _HEAD + b"X: a" + b"\r\n a" * (size // 4) + b"\r\n\r\napprove",
    "encoded words": lambda size: (
        _HEAD + b"Subject: " + b"=?utf-8?q?a?= " * (size // 15) + b"\r\n\r\napprove"
    ),
    "a bare text": lambda size: mail_of_text(_fill("yes ", size).encode()),
}
"""By name: a function that makes a message of about this number of bytes."""


class Cost(NamedTuple):
    """The cost of reading one message.

    Attributes:
        seconds: The CPU seconds.
        mebibytes: The increase of the process's peak memory.
    """

    seconds: float
    mebibytes: float


def cost(raw: bytes) -> Cost:
    """Read a message once, in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with contextlib.suppress(UnreadableMail):
        explain_mail(read_mail(raw), ReplyContext(fields=_FIELDS))
    taken = time.process_time() - start
    return Cost(taken, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def _measured(name: str) -> tuple[str, Cost, Cost]:
    small, large = (LAYOUTS[name](size - _SPARE) for size in (LARGEST_MAIL // 10, LARGEST_MAIL))
    return name, cost(small[: LARGEST_MAIL // 10]), cost(large[:LARGEST_MAIL])


def main() -> None:
    """Print a table of all layouts, or of those whose names are given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="layouts; all without one")
    names = parser.parse_args().names or list(LAYOUTS)
    # The parent reads the lexicon once for all processes.
    cost(
        plain("Nobody reads this as an answer, so it is looked up in every language: はい 네 同意")
    )
    table = Table("layout", "0.1 MiB (ms)", "1 MiB (ms)", "ratio", "memory (MiB)")
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for name, small, large in pool.imap(_measured, names):
            ratio = large.seconds / max(small.seconds, 0.000_1)
            figures = (f"{1000 * small.seconds:.0f}", f"{1000 * large.seconds:.0f}", f"{ratio:.1f}")
            table.add_row(name, *figures, f"{large.mebibytes:.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
