"""Checks whether a mail's meaning can change without breaking its signature.

A signature always covers the body and the From, but often not the fields that say how to read the
body: Gmail, for instance, does not sign Content-Type and Content-Transfer-Encoding. Changing such a
field can hide words: ``<!-- no, because … -->approve`` is a rejection as plain text, and an
approval as HTML. So if these fields are not signed, a mail counts only in the one form in which
mail programs write it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from signoff.channels.email.parsing.mime import Part
from signoff.channels.email.parsing.quoting import read_reply

TYPE: Final = "content-type"
ENCODING: Final = "content-transfer-encoding"

_MULTIPARTS: Final = frozenset(
    {"multipart/alternative", "multipart/mixed", "multipart/related", "multipart/signed"}
)
_TEXTS: Final = frozenset({"text/plain", "text/html"})
_MARKUP: Final = re.compile(r"<[A-Za-z/!?]|&#?\w{1,32};")
_ESCAPED: Final = re.compile(r"=[0-9A-F]{2}|=\s*$", re.MULTILINE)
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{1,76}={0,2}\s*")
_WIDE: Final = ("utf-16", "utf-32", "utf-7", "utf16", "utf32", "utf7", "hz", "iso-2022", "iso2022")
"""Charsets in which the bytes of ASCII letters mean other letters."""


def is_read_as_signed(mail: Part, covers: Collection[str]) -> bool:
    """Return whether a mail is read as it was signed, by the covered fields (in lower case)."""
    typed, encoded = TYPE in covers, ENCODING in covers
    if mail.media_type.startswith("multipart/"):
        # A multipart is never encoded as a whole (RFC 2045, section 6.4).
        return typed or _is_plain_multipart(mail)
    answer = read_reply(mail.text()).answer
    return (typed or _is_plain_text(mail, answer)) and (encoded or _is_decoded(mail, answer))


def _is_plain_multipart(mail: Part) -> bool:
    """Return whether a body can only be this multipart: it begins with its first part.

    Alternatives must have different types, and another multipart must not show both plain text and
    HTML. Otherwise a different kind of multipart would show more or less text.
    """
    types = [part.media_type for part in mail.children]
    if mail.media_type == "multipart/alternative":
        distinct = len(set(types)) == len(types)
    else:
        shown = {part.media_type for part in mail.children if not part.attached}
        distinct = not shown >= _TEXTS
    return (
        mail.media_type in _MULTIPARTS
        and not mail.unseen
        and bool(types)
        and all(part.headers.every(TYPE) for part in mail.children)
        and distinct
    )


def _is_plain_text(mail: Part, answer: str) -> bool:
    """Return whether a body means the same as text and as HTML, in any charset."""
    charset = mail.parameters.get("charset", "").strip().lower()
    return (
        mail.media_type == "text/plain"
        and not charset.startswith(_WIDE)
        and _MARKUP.search(answer) is None
    )


def _is_decoded(mail: Part, answer: str) -> bool:
    """Return whether the encoding is the one in which the body was written."""
    encoding = mail.headers.first(ENCODING).strip().lower()
    if encoding == "base64":
        return all(_BASE64.fullmatch(line) for line in mail.body.split(b"\n") if line.strip())
    return encoding == "quoted-printable" or _ESCAPED.search(answer) is None
