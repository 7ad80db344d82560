"""What `signoff doctor` looks at of the inbox page."""

from __future__ import annotations

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.auth.factors import enrolled
from signoff.channels.inbox.auth.oidc import OpenId, SignInError
from signoff.cli.config.settings import Settings
from signoff.cli.doctor.finding import Finding
from signoff.core.directory.queues import QUEUE


async def about_inbox(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Look at the second factors, and at the sign-in of the company.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    return [*await second_factors(ledger, settings), *await openid(ledger, settings)]


async def second_factors(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Look for people who may have to take a second step and cannot."""
    if not settings.inbox.url:
        return []
    directory = settings.everybody
    rules = [one for one in (*settings.policies, settings.default) if one.second_step]
    # The default is asked where a policy leaves nobody, under the second step of that policy.
    asked = [ref for one in rules for ref in one.references] + [*settings.default.ask] * bool(rules)
    queues = {QUEUE + name: queue.members for name, queue in directory.queues.items()}
    named = dict.fromkeys(one for ref in asked for one in queues.get(ref, (ref,)))
    needed = [one for one in named if directory.get(one) is not None]
    there = set(await enrolled(ledger, [one.id for one in directory]))
    if lacking := [person for person in needed if person not in there]:
        text = (
            f"{', '.join(lacking)} may be asked for a second step and cannot take it: "
            f"`signoff people enroll {lacking[0]}`"
        )
        return [Finding("second factors", "warning", text)]
    return [Finding("second factors", "good", f"all who need one have it; {len(there)} enrolled")]


async def openid(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Ask the sign-in of the company how it is reached."""
    if settings.inbox.oidc is None:
        return []
    company = OpenId(ledger, settings.inbox.oidc, settings.inbox.url)
    try:
        await company.known()
    except SignInError as error:
        return [Finding("openid connect", "broken", str(error))]
    text = f"{settings.inbox.oidc.issuer} says how it is reached; it sends back to {company.back}"
    return [Finding("openid connect", "good", text)]
