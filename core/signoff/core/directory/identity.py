"""Finds out whether two identities may belong to one person, although they are written differently.

A front end chooses the user id under which it runs an agent: an address with a plus-suffix, a Slack
id, ``oidc|mara@example.com``, a display name. The comparison in this module can only bar a person
from a decision. It never gives a permission; for permissions, identities are compared exactly.
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
    # Letters and marks that are invisible (Unicode, Default_Ignorable_Code_Point).
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)
_BETWEEN_PARTS: Final = re.compile(r"[|:/\\<>()\[\]{}\"',;=!?&#*]+")
"""The separators between the parts of an identity: a provider, a tenant, a name, an address."""
_PROVIDERS: Final = re.compile(
    r"(?:(?:adfs|auth0|azure|azuread|cognito|email|entra|github|google|keycloak|ldap|mail"
    r"|microsoft|oauth2?|oidc|okta|saml|slack|sso|teams|user|t(?=[a-z]*\d)[a-z0-9]+)[\W_]+)+"
)
"""Names of providers and ids of Slack teams in front of an identity: ``slack_T01AB_U0MARA``."""
_GUEST: Final = "#ext#"
"""The mark in a guest's user name in Microsoft Entra, after the address with "_" for "@"."""
_IN_NAMES: Final = re.compile(r"[\W_]+")
_WITHOUT_DOTS: Final = {"gmail.com": "gmail.com", "googlemail.com": "gmail.com"}
"""Domains that ignore dots in mailboxes, and their canonical names."""
_LONGEST: Final = 1_000


def folded(text: str) -> str:
    """Return text in the form for comparison: NFKC, case-folded, without invisible characters.

    See Unicode Standard Annex 31, section 5.1.3 (NFKC_Casefold). Runs of spaces become one space.
    """
    text = text[:_LONGEST]
    if text.isascii() and text.isprintable():
        return " ".join(text.lower().split())
    composed = unicodedata.normalize("NFKC", text)
    seen = "".join(mark for mark in composed if not _is_unseen(mark))
    return " ".join(unicodedata.normalize("NFKC", seen.casefold()).split())


def mailbox(address: str) -> str:
    """Return the mailbox of an address, "" if the text is not an address.

    The mailbox is the folded address without a plus-suffix (a detail in RFC 5233), with the domain
    in ASCII. For a guest in Microsoft Entra, it is the mailbox in the user name.
    """
    local, at, domain = folded(address).rpartition("@")
    if at and local.endswith(_GUEST):
        local, _, domain = local.removesuffix(_GUEST).rpartition("_")
        local = _BETWEEN_PARTS.split(local)[-1]
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
    """Return the readings of an identity: the identity, its parts, and the mailboxes in it."""
    return frozenset(_forms(identity)) - {""}


@lru_cache(maxsize=4096)
def known_as(ids: tuple[str, ...], name: str) -> frozenset[str]:
    """Return the identities of a person, to compare with `forms`.

    Args:
        ids: The person's ids and addresses in all channels.
        name: The displayed name.
    """
    found = {_words(name), _joined(name)}
    for one in ids:
        # A Slack user id is written with or without the team in front.
        found |= {folded(one), folded(one.rpartition("/")[2]), mailbox(one)}
    return frozenset(found - {""})


def may_be_same(one: str, other: str) -> bool:
    """Say whether two unknown identities may belong to one person."""
    return bool({folded(one), mailbox(one)} & forms(other)) or bool(
        {folded(other), mailbox(other)} & forms(one)
    )


def _forms(identity: str) -> Iterator[str]:
    once = unquote(identity)
    for text in dict.fromkeys(map(folded, (identity, once, unquote(once)))):
        segments = [text, *(part.strip() for part in _BETWEEN_PARTS.split(text))]
        segments += [one[found.end() :] for one in segments if (found := _PROVIDERS.match(one))]
        for segment in segments:
            yield from (segment, segment.lstrip("@"), _words(segment), _joined(segment))
            yield mailbox(segment.replace(" ", ""))
            yield from map(mailbox, segment.split())


def _words(name: str) -> str:
    """Return the words of a name in alphabetical order: "Lind, Mara" equals "mara.lind"."""
    return " ".join(sorted(filter(None, _IN_NAMES.split(folded(name)))))


def _joined(name: str) -> str:
    """Return a name in the form of many user ids: "Mara Lind" equals "MaraLind"."""
    return _IN_NAMES.sub("", folded(name))


def _is_unseen(mark: str) -> bool:
    return (
        unicodedata.category(mark) in _UNSEEN
        or mark in _BLANK
        or "\ufe00" <= mark <= "\ufe0f"
        or "\U000e0100" <= mark <= "\U000e01ef"
    )
