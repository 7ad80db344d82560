"""DKIM signatures (RFC 6376, RFC 8463): finds them, reads their coverage, and verifies them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from signoff.channels.email.authentication.lookup import Records, is_name
from signoff.channels.email.parsing.addresses import parse_addresses
from signoff.channels.email.parsing.mime import Headers

_ALGORITHMS: Final = {"rsa-sha256": "rsa", "ed25519-sha256": "ed25519"}
_SMALLEST_KEY: Final = 1024  # RFC 8301 section 3.2
_MOST: Final = 20
_MOST_FIELDS: Final = 1000
_MOST_SIGNED: Final = 200
# Some regular expressions of the library are quadratic in such a run; mail programs never write
# one.
_LONG_RUN: Final = re.compile(rb"[ \t\r\n]{65}")
_FOREIGN_ERRORS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One DKIM-Signature field, parsed but not verified.

    Attributes:
        index: The position among the mail's signatures, 0 for the topmost.
        domain: The signing domain (``d=``), in lower case.
        selector: The selector of the key (``s=``).
        value: The signature (``b=``), without white space.
        covers: The names of the signed fields (``h=``), in lower case.
        tags: All tags.
    """

    index: int
    domain: str
    selector: str
    value: str
    covers: tuple[str, ...]
    tags: dict[str, str]

    @property
    def whole(self) -> bool:
        """Whether the whole body is signed: with ``l=``, text can be appended."""
        return "l" not in self.tags

    def recipients(self, headers: Headers) -> tuple[str, ...]:
        """Return the addresses of To and Cc that are signed.

        If a field is there twice but signed once, the unsigned one could be read.
        """
        found: list[str] = []
        for name in ("to", "cc"):
            values = headers.every(name)
            if self.whole and name in self.covers and len(values) == 1:
                found += parse_addresses(values[0]).addresses
        return tuple(found)

    def content(self, headers: Headers) -> str:
        """Return a 128-bit hash of the signed content, in hexadecimal digits.

        It is the same for each copy of a mail, whatever was added or changed outside the signed
        content: the body (by ``bh=``), the tags, and the fields that RFC 6376, section 5.4.2,
        selects. The signature itself (``b=``) is excluded: the same one can be written in several
        ways.
        """
        tags = {name: "".join(text.split()) for name, text in self.tags.items() if name != "b"}
        seen: dict[str, int] = {}
        fields = []
        for name in self.covers:
            values, nth = headers.every(name), seen.get(name, 0)
            seen[name] = nth + 1
            fields.append([name, " ".join(values[-1 - nth].split()) if nth < len(values) else None])
        text = json.dumps([sorted(tags.items()), fields])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def signatures_in(headers: Headers) -> tuple[Signature, ...]:
    """Return the signatures of a mail that can be parsed, the topmost first."""
    found = []
    for index, value in enumerate(headers.every("dkim-signature")[:_MOST]):
        tags = parse_tags(value)
        if tags is None or not {"d", "s", "b", "h"} <= set(tags):
            continue
        # People read these names in messages, so they must not contain sentences.
        if not is_name(tags["d"]) or not is_name(tags["s"]):
            continue
        covers = tuple(name.strip().lower() for name in tags["h"].split(":"))
        found.append(
            Signature(
                index=index,
                domain=tags["d"].lower(),
                selector=tags["s"],
                value="".join(tags["b"].split()),
                covers=covers,
                tags=tags,
            )
        )
    return tuple(found)


def parse_tags(value: str) -> dict[str, str] | None:
    """Parse ``a=1; b=2`` (RFC 6376, section 3.2); None if it is not such a list."""
    tags: dict[str, str] = {}
    for piece in value.split(";"):
        name, found, content = piece.partition("=")
        if not piece.strip():
            continue
        if not found or name.strip() in tags:
            return None
        tags[name.strip()] = content.strip()
    return tags


async def verify(
    raw: bytes, headers: Headers, signature: Signature, txt: Records, *, now: datetime
) -> str | None:
    """Return why a signature is invalid, "" if it is valid; None if its key is unavailable now."""
    if problem := _unusable(headers, signature, now):
        return problem
    name = f"{signature.selector}._domainkey.{signature.domain}"
    records = await txt.records(name)
    if records is None:
        return None
    if len(records) != 1:
        return f"there is no key at {name}" if not records else f"there are several keys at {name}"
    if problem := _unusable_key(records[0], signature):
        return f"the key at {name} {problem}"
    return _checked(raw, signature, records[0])


def _unusable(headers: Headers, signature: Signature, now: datetime) -> str:
    """Return why a signature does not count, regardless of its key."""
    tags, expires = signature.tags, signature.tags.get("x", "")
    readable = not expires or (expires.isascii() and expires.isdecimal() and len(expires) <= 12)
    size = len(signature.covers) > _MOST_SIGNED or len(headers.fields) > _MOST_FIELDS
    problems = {
        "its algorithm does not count": tags.get("a") not in _ALGORITHMS,
        "its version is not 1": tags.get("v") != "1",
        "it covers only a part of the text (l=), and somebody could add to it": not signature.whole,
        "it does not cover the From": "from" not in signature.covers,
        "it has more fields than are looked at": size,
        "when it expires cannot be read": not readable,
        "it has expired": bool(expires) and readable and int(expires) <= now.timestamp(),
    }
    return next((problem for problem, found in problems.items() if found), "")


def _unusable_key(record: bytes, signature: Signature) -> str:
    """Return why a key does not count for a signature (RFC 6376, section 3.6.1)."""
    tags = parse_tags(record.decode("ascii", "replace"))
    if tags is None or tags.get("v", "DKIM1") != "DKIM1":
        return "cannot be read"

    def listed(name: str, default: str) -> set[str]:
        return {one.strip() for one in tags.get(name, default).split(":")}

    identity = signature.tags.get("i", "").rpartition("@")[2].lower()
    narrow = "s" in listed("t", "") and identity not in {"", signature.domain}
    problems = {
        "has been revoked": not tags.get("p"),
        "is for another algorithm": tags.get("k", "rsa") != _ALGORITHMS[signature.tags["a"]],
        "is for another hash": "sha256" not in listed("h", "sha256"),
        "is not for mail": listed("s", "*").isdisjoint({"*", "email"}),
        "is marked as a test (t=y)": "y" in listed("t", ""),
        "is not for subdomains (t=s)": narrow,
    }
    return next((problem for problem, found in problems.items() if found), "")


def _checked(raw: bytes, signature: Signature, key: bytes) -> str:
    import dkim  # noqa: PLC0415 -- needed only in the separate process that authenticates mails

    lines = re.split(rb"\r?\n", raw)
    body = lines.index(b"") if b"" in lines else len(lines)
    if _LONG_RUN.search(b"\r\n".join(lines[:body])):
        return "its header has too much white space to be looked at"
    if signature.tags.get("c", "").partition("/")[2].strip() == "relaxed":
        # The library's own code for this is quadratic in the longest run of spaces.
        lines[body:] = [line.rstrip(b" \t") for line in lines[body:]]
    try:
        verifier = dkim.DKIM(b"\r\n".join(lines), minkey=_SMALLEST_KEY)
        good = verifier.verify(idx=signature.index, dnsfunc=lambda _name, timeout=0: key)
    except dkim.KeyFormatError:
        return "its key is too small, or cannot be read"
    except (dkim.DKIMException, *_FOREIGN_ERRORS):
        # The library's message quotes the mail, and people read ours.
        return "it does not hold: something that it covers was changed"
    return "" if good else "it does not hold: something that it covers was changed"
