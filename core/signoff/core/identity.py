"""Whether two identities may be one person, however they are written.

A front end chooses the user id under which it runs an agent: an address with a plus-suffix, a Slack
id, ``oidc|mara@example.com``, a display name. What is compared here only ever bars somebody from a
decision. Nobody may do more because of it: for that, identities are compared exactly.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

_UNSEEN: Final = ("Cc", "Cf", "Cs")
_BLANK: Final = frozenset(
    # Letters and marks that nothing is drawn for (Unicode, Default_Ignorable_Code_Point).
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)
_BETWEEN_PARTS: Final = re.compile(r"[|:/\\<>()\[\]{}\"',;=!?&#*]+")
"""What stands between the parts of an identity: a provider, a tenant, a name, an address."""
_IN_NAMES: Final = re.compile(r"[\W_]+")
_WITHOUT_DOTS: Final = {"gmail.com": "gmail.com", "googlemail.com": "gmail.com"}
"""Domains whose mailboxes have any number of dots in them, and what they are called."""
_LONGEST: Final = 1_000


def folded(text: str) -> str:
    """Return text as it is compared: NFKC, without case, and without characters that are not seen.

    Unicode Standard Annex 31, section 5.1.3 (NFKC_Casefold); runs of space become one.
    """
    text = text[:_LONGEST]
    if text.isascii() and text.isprintable():
        return " ".join(text.lower().split())
    composed = unicodedata.normalize("NFKC", text)
    seen = "".join(mark for mark in composed if not _is_unseen(mark))
    return " ".join(unicodedata.normalize("NFKC", seen.casefold()).split())


def mailbox(address: str) -> str:
    """Return the mailbox that an address leads to, "" for what is no address.

    That is the address, folded, without a plus-suffix (RFC 5233 calls it a detail), its domain in
    ASCII.
    """
    local, at, domain = folded(address).rpartition("@")
    local = local.partition("+")[0]
    if not at or not local or not domain:
        return ""
    domain = domain.rstrip(".")
    if not domain.isascii():
        with suppress(UnicodeError):
            domain = domain.encode("idna").decode("ascii")
    if domain in _WITHOUT_DOTS:
        return f"{local.replace('.', '')}@{_WITHOUT_DOTS[domain]}"
    return f"{local}@{domain}"


@lru_cache(maxsize=4096)
def forms(identity: str) -> frozenset[str]:
    """Return what an identity may be read as: itself, its parts, and the mailboxes in it."""
    return frozenset(_forms(identity)) - {""}


@lru_cache(maxsize=4096)
def known_as(ids: tuple[str, ...], name: str) -> frozenset[str]:
    """Return what somebody is known as, to be held against `forms`.

    Args:
        ids: Their ids and addresses, in every channel.
        name: The name that people read.
    """
    found = {_words(name), _joined(name)}
    for one in ids:
        # A Slack user is written with the team in front, and without.
        found |= {folded(one), folded(one.rpartition("/")[2]), mailbox(one)}
    return frozenset(found - {""})


def may_be_same(one: str, other: str) -> bool:
    """Say whether two identities of which nobody knows whose they are may be one person's."""
    return bool({folded(one), mailbox(one)} & forms(other)) or bool(
        {folded(other), mailbox(other)} & forms(one)
    )


def _forms(identity: str) -> Iterator[str]:
    for text in dict.fromkeys((folded(identity), folded(unquote(identity)))):
        segments = [text, *(part.strip() for part in _BETWEEN_PARTS.split(text))]
        for segment in segments:
            yield from (segment, segment.lstrip("@"), _words(segment), _joined(segment))
            yield mailbox(segment.replace(" ", ""))
            yield from map(mailbox, segment.split())


def _words(name: str) -> str:
    """Return the words of a name in their order in the alphabet: "Lind, Mara" is "mara.lind"."""
    return " ".join(sorted(filter(None, _IN_NAMES.split(folded(name)))))


def _joined(name: str) -> str:
    """Return a name as user ids often are: "Mara Lind" is "MaraLind"."""
    return _IN_NAMES.sub("", folded(name))


def _is_unseen(mark: str) -> bool:
    return (
        unicodedata.category(mark) in _UNSEEN
        or mark in _BLANK
        or "\ufe00" <= mark <= "\ufe0f"
        or "\U000e0100" <= mark <= "\U000e01ef"
    )
