"""DMARC (RFC 7489), as far as it matters here: alignment, and the record of a domain."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from signoff.channels.email.authentication.lookup import Records
from signoff.channels.email.authentication.signatures import parse_tags

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
    """Say whether a domain may vouch for the domain of an author (section 3.1).

    Args:
        domain: The domain that signs or sends.
        author: The domain of the From.
        strict: They must be the same; otherwise the same organisation will do.
    """
    one, other = domain.lower(), author.lower()
    return bool(one) and (one == other or (not strict and organisation(one) == organisation(other)))


async def wants_strict_dkim(domain: str, txt: Records) -> bool | None:
    """Say whether a domain lets only itself sign (``adkim=s``, section 6.3), and no other.

    Returns:
        False where it has no record; None if it can not be asked now.
    """
    for name in dict.fromkeys((domain, organisation(domain))):
        records = await txt.records(f"_dmarc.{name}")
        if records is None:
            return None
        policies = [record for record in records if record.startswith(b"v=DMARC1")]
        if len(policies) == 1:
            tags = parse_tags(policies[0].decode("ascii", "replace")) or {}
            return tags.get("adkim", "r").lower() == "s"
    return False


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 -- where mails are proven

    return PublicSuffixList()
