"""Parses mail addresses in header fields (RFC 5322 section 3.4) strictly.

The author of a mail decides a tool call, so an ambiguous field has no address: group syntax,
comments or encoded words inside an address, source routes and quoted local parts are not accepted.
Domains are compared in their ASCII form (RFC 5890), so a look-alike letter makes another domain.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

LONGEST_ADDRESS: Final = 254
LONGEST_LOCAL: Final = 64  # RFC 5321 section 4.5.3.1.1

_ATEXT: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-/=?^_`{|}~"
)
_TOKEN: Final = frozenset("abcdefghijklmnopqrstuvwxyz234567")
_LENGTH_OF_TOKEN: Final = 26


class AddressList(NamedTuple):
    """The addresses of one field; not ``certain`` if the field is ambiguous."""

    addresses: tuple[str, ...]
    certain: bool


@dataclass(slots=True)
class _Entry:
    """One element of the list during parsing: the text outside and inside the brackets."""

    words: list[str] = field(default_factory=list)
    angle: list[str] = field(default_factory=list)
    angles: int = 0
    trailing: bool = False


def parse_addresses(value: str) -> AddressList:
    """Parse the addresses of a From, To or Cc field.

    Args:
        value: The field's value, unfolded but not decoded, so that an encoded word never becomes an
            address.

    Returns:
        The addresses with their domain in lower case, and whether the field is unambiguous.
    """
    entries, certain = _split(value)
    addresses: list[str] = []
    for entry in entries:
        phrase = "".join(entry.words).strip()
        text = "".join(entry.angle).strip() if entry.angles else phrase
        if not entry.angles and not text:
            certain = certain and len(entries) == 1 and not value.strip()
            continue
        address = normal_address(text)
        if address is None:
            certain = False
            continue
        addresses.append(address)
        # "a@x.example <b@y.example>" displays one address and means another.
        two_faced = entry.angles and "@" in phrase and normal_address(phrase) != address
        certain = certain and entry.angles <= 1 and not entry.trailing and not two_faced
    return AddressList(tuple(addresses), certain and bool(addresses))


def normal_address(text: str) -> str | None:
    """Return an address with its domain in lower case and ASCII, or None if it is not plain.

    The local part keeps its case (RFC 5321 section 2.4).
    """
    local, at, domain = text.rpartition("@")
    if not at or len(text) > LONGEST_ADDRESS or not 0 < len(local) <= LONGEST_LOCAL or "=?" in text:
        return None
    if not all(atom and set(atom) <= _ATEXT for atom in local.split(".")):
        return None
    ascii_domain = _ascii_domain(domain)
    labels = ascii_domain.split(".")
    valid = all(
        label and label.replace("-", "").isalnum() and label[0] != "-" != label[-1]
        for label in labels
    )
    return f"{local}@{ascii_domain}" if valid else None


def plus_parts(addresses: tuple[str, ...], mailbox: str) -> tuple[str, ...]:
    """Return the tokens in addresses that consist of the mailbox, a plus and a token.

    Args:
        addresses: Addresses as ``parse_addresses`` returns them.
        mailbox: The plain address, ``approvals@signoff.example``.

    Returns:
        The tokens (26 letters of base32, RFC 4648 section 6) in their order, without duplicates.
        They are lower-cased, because mail programs change the case of local parts.
    """
    own_local, _, own_domain = mailbox.lower().rpartition("@")
    tokens: dict[str, None] = {}
    for address in addresses:
        local, _, domain = address.lower().rpartition("@")
        token = local.removeprefix(f"{own_local}+")
        fits = domain == own_domain and token != local and len(token) == _LENGTH_OF_TOKEN
        if fits and set(token) <= _TOKEN:
            tokens[token] = None
    return tuple(tokens)


def _ascii_domain(domain: str) -> str:
    """Return a domain in its ASCII form, or "" if another name has the same form.

    The codec folds "straße" into "strasse" and full-width letters into ASCII letters, which are
    other domains.
    """
    lowered = domain.lower()
    if lowered.isascii():
        return lowered
    try:
        encoded = lowered.encode("idna")
        return encoded.decode("ascii") if encoded.decode("idna") == lowered else ""
    except UnicodeError:
        return ""


def _split(value: str) -> tuple[list[_Entry], bool]:
    """Split a list at its commas, in one pass and without recursion."""
    entries = [_Entry()]
    quoted = escaped = inside = False
    comments, certain = 0, True
    for mark in value:
        entry = entries[-1]
        if escaped:
            escaped = False
        elif mark == "\\" and (quoted or comments):
            escaped = True
        elif mark == '"' and not comments:
            quoted = not quoted
            certain = certain and not inside
        elif quoted:
            pass
        elif mark in "()":
            certain = certain and not inside and (mark == "(" or comments > 0)
            comments = max(0, comments + (1 if mark == "(" else -1))
            # A comment separates words as a space does: "a(x)@b" is not an address.
            entry.words.append(" ")
        elif comments:
            pass
        elif mark == "<":
            certain = certain and not inside
            inside, entry.angles = True, entry.angles + 1
        elif mark == ">":
            certain = certain and inside
            inside = False
        elif inside:
            entry.angle.append(mark)
        elif mark in ",;":
            certain = certain and mark == ","
            entries.append(_Entry())
        else:
            # A colon opens a group, whose members are not a single author.
            certain = certain and mark != ":"
            entry.trailing = entry.trailing or (entry.angles > 0 and not mark.isspace())
            entry.words.append(mark)
    return entries, certain and not (quoted or comments or inside)
