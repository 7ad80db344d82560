"""When one domain may vouch for another: alignment (RFC 7489, section 3.1)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


def organisation(domain: str) -> str:
    """Return the domain that somebody has registered: ``example.co.uk`` of ``a.example.co.uk``.

    By the public suffix list that comes with the library; a public suffix has none and is returned
    as it is.
    """
    plain = domain.lower()
    return _suffixes().privatesuffix(plain) or plain


def aligned(domain: str, author: str, *, strict: bool) -> bool:
    """Say whether a domain may vouch for the domain of an author.

    Args:
        domain: The domain that signs or sends.
        author: The domain of the From.
        strict: They must be the same; otherwise the same organisation will do.
    """
    one, other = domain.lower(), author.lower()
    return bool(one) and (one == other or (not strict and organisation(one) == organisation(other)))


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 -- where mails are proven

    return PublicSuffixList()
