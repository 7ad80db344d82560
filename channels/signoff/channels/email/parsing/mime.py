"""Parses the structure of a mail: header fields, parts and decoded text, not their meaning.

We do not use the standard library's parser, because hostile mail can keep it busy for minutes: its
header parser needed 10 s for 300 KB, and it is quadratic in the number of nested parts and of
parameters. This parser only moves forwards, checks every limit before it descends, and does not
guess: it marks an irregular header block as ``broken``.
"""

import binascii
import codecs
import quopri
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from signoff.core.base.errors import MailTooLarge

LARGEST_MAIL: Final = 1024 * 1024
LARGEST_HEADERS: Final = 64 * 1024
LARGEST_FIELD: Final = 8 * 1024
MOST_PARTS: Final = 50
DEEPEST: Final = 10

_ONCE: Final = ("content-type", "content-transfer-encoding")
_SINGLE: Final = ("from", "message-id", "date", "subject", "in-reply-to", "references")
_LONGEST_BOUNDARY: Final = 200  # RFC 2046 section 5.1.1 allows 70
_CHARSETS: Final = (
    *("ascii", "utf-8", "utf-16", "utf-32", "iso8859-", "cp125", "cp437", "cp850", "cp874", "koi8"),
    *("gb2312", "gbk", "gb18030", "hz", "big5", "cp950", "shift_jis", "cp932", "euc_jp"),
    *("iso2022_jp", "euc_kr", "cp949", "iso2022_kr", "tis-620", "mac-", "kz1048", "ptcp154"),
)
_SUPERSETS: Final = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
}
"""The charsets that programs mean by these names (WHATWG Encoding)."""


@dataclass(frozen=True, slots=True)
class Headers:
    """Header fields in order: names in lower case, values unfolded but not decoded.

    ``broken`` says that two parsers may read the block differently.
    """

    fields: tuple[tuple[str, str], ...] = ()
    broken: bool = False

    def every(self, name: str) -> tuple[str, ...]:
        """Return the values of all fields of this name."""
        return tuple(value for field, value in self.fields if field == name)

    @property
    def repeated(self) -> str:
        """A field that is there twice but may be there only once, or "".

        RFC 5322, section 3.6; RFC 2045, section 3.
        """
        return next((name for name in (*_SINGLE, *_ONCE) if len(self.every(name)) > 1), "")

    def first(self, name: str) -> str:
        """Return the value of the topmost field of this name, or ""."""
        return next(iter(self.every(name)), "")


@dataclass(frozen=True, slots=True)
class Part:
    """A mail or one of its parts; only a multipart has ``children``."""

    headers: Headers
    media_type: str
    parameters: dict[str, str]
    body: bytes
    children: tuple["Part", ...] = ()

    def walk(self) -> Iterator["Part"]:
        """Yield this part and all parts below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def attached(self) -> bool:
        """Whether the part is an attached file, not text."""
        disposition, parameters = parse_parameters(self.headers.first("content-disposition"))
        # A long or foreign name comes as "filename*" or in pieces, as "name*0" (RFC 2231).
        named = any(key.partition("*")[0] == "filename" for key in parameters)
        named = named or any(key.partition("*")[0] == "name" for key in self.parameters)
        return disposition == "attachment" or named

    @property
    def unseen(self) -> bool:
        """Whether it contains text outside its parts, which mail programs do not show."""
        boundary = self.parameters.get("boundary", "").encode("utf-8", "replace")
        first = self.body.lstrip().partition(b"\n")[0].rstrip()
        return bool(self.children) and first != b"--" + boundary

    def text(self) -> str:
        """Return the body as text in any encoding; invalid bytes become U+FFFD."""
        body = _transfer_decoded(self.body, self.headers.first("content-transfer-encoding"))
        return _charset_decoded(body, self.parameters.get("charset", ""))


def text_of_bytes(raw: bytes) -> str:
    """Decode text of unknown encoding: UTF-16 by its byte order mark, else UTF-8, else cp1252."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace")
    return _charset_decoded(raw, "").removeprefix("\ufeff")


def parse_mail(raw: bytes) -> Part:
    """Split a mail into its parts (RFC 5322, RFC 2046).

    Args:
        raw: The message as it was received, with any line ends.

    Returns:
        The mail as a tree. Mails inside the mail (message/rfc822) are not opened.

    Raises:
        MailTooLarge: It exceeds a limit on size, header size, number of parts or depth.
    """
    if len(raw) > LARGEST_MAIL:
        raise MailTooLarge(
            f"The message has {len(raw):,} bytes; {LARGEST_MAIL:,} are read at most."
        )
    return _parse(raw, depth=1, seen=[])


def parse_headers(raw: bytes) -> Headers:
    """Return only the header fields of a mail.

    Raises:
        MailTooLarge: The header exceeds a size limit.
    """
    return _parse_headers(raw)[0]


def parse_parameters(value: str) -> tuple[str, dict[str, str]]:
    """Split "text/plain; charset=utf-8" into its lower-cased value and its parameters.

    RFC 2045 section 5.1. If a parameter is given twice, the first one counts.
    """
    pieces = _outside_quotes(value)
    parameters: dict[str, str] = {}
    for piece in pieces[1:]:
        name, found, content = piece.partition("=")
        if found:
            parameters.setdefault(name.strip().lower(), _unquoted(content.strip()))
    return pieces[0].strip().lower(), parameters


def _parse(raw: bytes, *, depth: int, seen: list[None]) -> Part:
    seen.append(None)
    if len(seen) > MOST_PARTS or depth > DEEPEST:
        raise MailTooLarge(
            f"The message has over {MOST_PARTS} parts, or parts over {DEEPEST} deep."
        )
    headers, start = _parse_headers(raw)
    media_type, parameters = parse_parameters(headers.first("content-type"))
    body = raw[start:]
    children: list[Part] = []
    boundary = parameters.get("boundary", "")
    if media_type.startswith("multipart/") and 0 < len(boundary) <= _LONGEST_BOUNDARY:
        for piece in _split_parts(body, b"--" + boundary.encode("utf-8", "replace")):
            children.append(_parse(piece, depth=depth + 1, seen=seen))  # noqa: PERF401 - it may raise
    if media_type == "multipart/digest":
        # A digest contains mails of others (RFC 2046, section 5.1.5).
        children = [replace(one, media_type="message/rfc822", children=()) for one in children]
    plain = media_type if "/" in media_type else "text/plain"
    return Part(headers, plain, parameters, body, tuple(children))


def _parse_headers(raw: bytes) -> tuple[Headers, int]:
    """Read header fields up to the empty line; return them and the start of the body."""
    fields: list[tuple[str, list[bytes]]] = []
    broken, at = False, 0
    while at < len(raw):
        newline = raw.find(b"\n", at, at + LARGEST_FIELD + 2)
        end = newline if newline >= 0 else len(raw)
        if end - at > LARGEST_FIELD or end > LARGEST_HEADERS:
            raise MailTooLarge(
                f"A header field is over {LARGEST_FIELD:,} bytes, or all {LARGEST_HEADERS:,}."
            )
        line, after = raw[at:end].removesuffix(b"\r"), end + 1
        if not line:
            at = after
            break
        # Only some parsers treat a lone CR as a line end, which could smuggle in a From.
        broken = broken or b"\r" in line or b"\0" in line
        if line[:1] in (b" ", b"\t"):
            broken = broken or not fields
            if fields:
                fields[-1][1].append(line)
        elif (name := _field_name(line)) is not None:
            fields.append((name, [line[line.index(b":") + 1 :]]))
        elif at or not line.startswith((b"From ", b">From ")):
            broken = True
            break
        at = after
    # A second field of these on top would change a mail that was signed with the first one.
    names = [name for name, _ in fields]
    broken = broken or any(names.count(name) > 1 for name in _ONCE)
    return Headers(tuple((name, _unfolded(lines)) for name, lines in fields), broken), min(
        at, len(raw)
    )


def _field_name(line: bytes) -> str | None:
    """Return the name of the field on this line, or None if no field begins here."""
    name, colon, _ = line.partition(b":")
    name = name.rstrip(b" \t")
    valid = colon and name and all(33 <= byte <= 126 for byte in name)
    return name.decode("ascii").lower() if valid else None


def _unfolded(lines: list[bytes]) -> str:
    value = b" ".join(line.strip(b" \t") for line in lines)
    if len(value) > LARGEST_FIELD:
        raise MailTooLarge(f"A header field is over {LARGEST_FIELD:,} bytes.")
    try:
        return value.decode("utf-8").strip()
    except UnicodeDecodeError:
        return value.decode("latin-1").strip()


def _split_parts(body: bytes, delimiter: bytes) -> Iterator[bytes]:
    """Yield the content between the delimiter lines."""
    start, at = -1, body.find(delimiter)
    while at >= 0:
        after = at + len(delimiter)
        if at == 0 or body[at - 1] == 0x0A:
            newline = body.find(b"\n", after)
            end = newline if newline >= 0 else len(body)
            tail = body[after:end].strip()
            if tail in (b"", b"--"):
                if start >= 0:
                    yield body[start : max(start, at - 1)].removesuffix(b"\r")
                if tail:
                    return
                start = min(end + 1, len(body))
            after = end
        at = body.find(delimiter, after)
    if start >= 0:
        yield body[start:]


def _outside_quotes(value: str) -> list[str]:
    """Split at the semicolons outside quoted strings."""
    pieces: list[list[str]] = [[]]
    quoted = escaped = False
    for mark in value:
        if mark == ";" and not quoted:
            pieces.append([])
            continue
        if mark == '"' and not escaped:
            quoted = not quoted
        escaped = mark == "\\" and quoted and not escaped
        pieces[-1].append(mark)
    return ["".join(piece) for piece in pieces]


def _unquoted(content: str) -> str:
    if len(content) >= 2 and content[0] == content[-1] == '"':
        return content[1:-1].replace("\\", "")
    return content.split(" ", 1)[0]


def _transfer_decoded(body: bytes, encoding: str) -> bytes:
    kind = encoding.strip().lower()
    if kind == "quoted-printable":
        return quopri.decodestring(body)
    if kind != "base64":
        return body
    # Four letters make three bytes: an incomplete last group is dropped.
    letters = body.translate(None, b"\r\n\t =")
    try:
        return binascii.a2b_base64(letters[: len(letters) & ~3] + _last_group(letters))
    except binascii.Error:
        return b""


def _last_group(letters: bytes) -> bytes:
    rest = letters[len(letters) & ~3 :]
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _charset_decoded(body: bytes, charset: str) -> str:
    try:
        name = codecs.lookup(charset.strip() or "utf-8").name
    except (LookupError, ValueError):
        name = "utf-8"
    # Python also has codecs that are not charsets, some of them slow ("punycode").
    if not name.startswith(_CHARSETS):
        name = "utf-8"
    if name in ("ascii", "utf-8"):
        return _unicode(body)
    return body.decode(_SUPERSETS.get(name, name), "replace")


def _unicode(body: bytes) -> str:
    """Decode text as UTF-8 or cp1252, by the share of valid UTF-8 in it.

    Multi-byte letters are hardly ever valid by chance, so a single damaged byte must not cause the
    others to be misread.
    """
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
    bad = text.count("\N{REPLACEMENT CHARACTER}")
    good = len(text) - len(text.encode("ascii", "ignore")) - bad
    return text if 0 < good >= bad else body.decode("cp1252", "replace")
