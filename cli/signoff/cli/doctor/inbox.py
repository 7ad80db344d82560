"""The checks of `signoff doctor` for the inbox page."""

from __future__ import annotations

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.auth.factors import enrolled, enrolled_for_others
from signoff.cli.config.settings import Settings
from signoff.cli.doctor.finding import Finding
from signoff.core.directory.queues import QUEUE


async def about_inbox(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Check the second factors and the OpenID Connect provider.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    return [*await second_factors(ledger, settings), *await openid(ledger, settings)]


async def second_factors(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Find people who may need a second factor and are not enrolled, and factors of others."""
    if not settings.inbox.url:
        return []
    directory = settings.everybody
    rules = [one for one in (*settings.policies, settings.default) if one.second_step]
    # If nobody of a policy can be asked, the default's people need that policy's second step.
    asked = [ref for one in rules for ref in one.references] + [*settings.default.ask] * bool(rules)
    queues = {QUEUE + name: queue.members for name, queue in directory.queues.items()}
    named = dict.fromkeys(one for ref in asked for one in queues.get(ref, (ref,)))
    needed = [one for one in named if directory.get(one) is not None]
    there = set(await enrolled(ledger, directory))
    findings = []
    if others := await enrolled_for_others(ledger, directory):
        words = ", ".join(f"{one} ({address})" for one, address in sorted(others.items()))
        text = (
            f"enrolled for an address that is not theirs now, so not accepted: {words}. For the "
            "same person, add the address to their aliases. For another person with the same id, "
            f"run `signoff people unenroll {min(others)}`"
        )
        findings.append(Finding("second factors", "warning", text))
    if lacking := [person for person in needed if person not in there]:
        text = (
            f"not enrolled, although a second step may be required: {', '.join(lacking)}. Enrol "
            f"them with `signoff people enroll {lacking[0]}`"
        )
        findings.append(Finding("second factors", "warning", text))
    good = f"everybody who needs one has it; {len(there)} enrolled"
    return findings or [Finding("second factors", "good", good)]


async def openid(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Read the configuration of the OpenID Connect provider."""
    if settings.inbox.oidc is None:
        return []
    from signoff.channels.inbox.auth.oidc import (  # noqa: PLC0415 -- few set-ups use it
        OpenId,
        SignInError,
    )

    company = OpenId(ledger, settings.inbox.oidc, settings.inbox.url)
    try:
        await company.known()
    except SignInError as error:
        return [Finding("openid connect", "broken", str(error))]
    text = f"{settings.inbox.oidc.issuer} answers; its redirect URI is {company.back}"
    return [Finding("openid connect", "good", text)]
