"""The DMARC record of a domain (RFC 7489, section 6.3), as far as it matters here."""

from __future__ import annotations

from signoff.channels.email.authentication.domains import organisation
from signoff.channels.email.authentication.lookup import Records
from signoff.channels.email.authentication.signatures import parse_tags


async def wants_strict_dkim(domain: str, txt: Records) -> bool | None:
    """Say whether a domain lets only itself sign (``adkim=s``), and not its whole organisation.

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
