"""The parts of DMARC (RFC 7489) that matter here: alignment, and the record of a domain."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from signoff.channels.email.authentication.lookup import Records
from signoff.channels.email.authentication.signatures import parse_tags

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


def organisation(domain: str) -> str:
    """Return the registered domain: ``example.co.uk`` for ``a.example.co.uk``.

    It uses the public suffix list of the library. A public suffix is returned unchanged.
    """
    plain = domain.lower()
    return _suffixes().privatesuffix(plain) or plain


def aligned(domain: str, author: str, *, strict: bool) -> bool:
    """Return whether a domain may vouch for the domain of an author (section 3.1).

    Args:
        domain: The domain that signs or sends.
        author: The domain of the From.
        strict: Whether both must be the same; otherwise the same organisation is enough.
    """
    one, other = domain.lower(), author.lower()
    return bool(one) and (one == other or (not strict and organisation(one) == organisation(other)))


async def wants_strict_dkim(domain: str, txt: Records) -> bool | None:
    """Return whether a domain requires strict DKIM alignment (``adkim=s``, section 6.3).

    Returns:
        False if it has no record; None if the DNS cannot answer now.
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
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 -- needed only to authenticate mails

    return PublicSuffixList()
