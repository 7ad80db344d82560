"""The checks of `signoff doctor` for mail: whether it goes out, comes in, and is proven."""

from __future__ import annotations

import asyncio

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.authentication.lookup import Txt
from signoff.channels.email.imap.oauth import Tokens
from signoff.channels.email.outbound.smtp import SmtpSender
from signoff.channels.email.settings import EmailSettings
from signoff.cli.config.settings import Settings
from signoff.cli.doctor.finding import Finding
from signoff.core.base.errors import ConfigError, LedgerUnavailable, MailboxError
from signoff.core.policies.policy import EmailProof

PATIENCE = 10.0
"""Seconds within which a server has to answer."""

_LOGIN = " and takes the login"
_MOST_DOMAINS = 5
_LEVELS = {
    EmailProof.TOKEN: "it came to the secret address of the card",
    EmailProof.TOKEN_FROM: "it came to the secret address of the card, from the approver's address",
    EmailProof.TOKEN_FROM_DMARC: "it came to the secret address of the card, from the approver's "
    "address, and that domain vouches for it",
}


async def smtp(settings: Settings, ledger: Ledger) -> Finding:
    """Connect, negotiate TLS and log in as for sending, and disconnect."""
    email = settings.email
    smtp = email.smtp.model_copy(update={"timeout": min(email.smtp.timeout, PATIENCE)})
    where = f"{smtp.host}:{smtp.real_port}"
    try:
        tokens = Tokens.of(smtp.oauth, ledger, timeout=smtp.timeout)
        problem = await SmtpSender(smtp, hostname=email.domain, tokens=tokens).check()
    except ConfigError as error:
        return Finding("smtp", "broken", str(error))
    if problem is None:
        return Finding("smtp", "good", f"{where} answers{_LOGIN if smtp.username else ''}")
    text = f"{str(problem).rstrip('.')}. Approvals wait until mail goes out."
    if "smtp" not in email.model_fields_set:
        text = f"[email.smtp] is not set. {text} (`signoff up` has a mailbox of its own.)"
        return Finding("smtp", "warning", text)
    return Finding("smtp", "broken", text)


async def mailbox(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Get a token if one is needed, log in, and open the folder, as for reading."""
    imap = settings.email.imap
    if imap is None:
        return []
    from signoff.channels.email.imap.connection import KEYWORD  # noqa: PLC0415 -- only with a mailbox
    from signoff.channels.email.imap.reader import log_in, tokens_for  # noqa: PLC0415

    imap = imap.model_copy(update={"timeout": min(imap.timeout, PATIENCE)})
    try:
        async with await log_in(imap, tokens_for(imap, ledger), largest=1) as session:
            folder = await session.call(session.mailbox.select)
            idle = "IDLE" in await session.call(session.mailbox.capabilities)
    except (ConfigError, MailboxError, LedgerUnavailable) as error:
        text = f"{error} Answers in this mailbox wait until it can be read."
        return [Finding("imap", "broken", text)]
    login = "a token is issued and accepted" if imap.oauth else "the login works"
    if idle and imap.idle:
        news = "it reports new mail at once (IDLE)"
    elif idle:
        news = f"Signoff polls it every {imap.poll:g} seconds (idle = 0)"
    else:
        news = f"it has no IDLE, and Signoff polls it every {imap.poll:g} seconds"
    keyword = (
        f"stored messages get the keyword {KEYWORD}"
        if folder.keywords
        else "it cannot store keywords, so the mailbox does not show which messages are stored"
    )
    text = f"{imap.where}: {login}, {imap.folder} exists, {news}, {keyword}"
    return [Finding("imap", "good", text)]


async def dkim(settings: Settings) -> list[Finding]:
    """Compare the key that signs our mail with the key in the DNS."""
    authentication, dkim = settings.email.authentication, settings.email.dkim
    if dkim.key is None:
        return []
    from signoff.channels.email.outbound.dkim import Signer  # noqa: PLC0415 -- cryptography

    try:
        signer = Signer(dkim, dkim.key)
    except ConfigError as error:
        return [Finding("dkim", "broken", str(error))]
    txt = Txt(authentication.nameservers, timeout=authentication.timeout)
    problem = await signer.problem(txt)
    if problem is None:
        text = f"the DNS could not be asked for {signer.name}; it should have: {signer.record}"
        return [Finding("dkim", "warning", text)]
    return [
        Finding(
            "dkim", "broken" if problem else "good", problem or f"{signer.name} has the right key"
        )
    ]


def proof(settings: Settings) -> list[Finding]:
    """Report what answers by mail must prove, and what this set-up can and cannot verify."""
    email = settings.email
    required = email.required
    levels = list(EmailProof)
    weak = [
        policy.name
        for policy in settings.policies
        if levels.index(policy.email or required) < levels.index(required)
    ]
    text = f"an answer counts with {required.value}: {_LEVELS[required]}"
    if weak:
        text += f". These policies require less: {', '.join(weak)}"
    return [
        Finding("email", "warning" if required is EmailProof.TOKEN else "good", text),
        Finding("email proof", "good", _means(email)),
        Finding("email proof", "good", answer_paths(email)),
    ]


def _means(email: EmailSettings) -> str:
    given = email.authentication
    means = []
    if given.authserv_id:
        means.append(
            f"Authentication-Results of {given.authserv_id} on top of a mail that was fetched, or "
            f"came from {', '.join(given.relays)}; that server must remove such fields of senders"
        )
    if email.verifies_dkim:
        means.append("DKIM signatures verified here; a mail that only passes SPF is not proven")
    if means:
        return (
            "proven by " + ", or by ".join(means) + ". Mail inside one provider is often not signed"
        )
    return (
        "nothing proves a From here: anybody who knows a card's address can write one. Set "
        "[email.authentication] dkim or authserv_id"
    )


def answer_paths(email: EmailSettings) -> str:
    """Describe how answers by mail come in."""
    inbound, paths = email.inbound, []
    if inbound.listen:
        secured = ", with STARTTLS" if inbound.certificate else ""
        by = f"{inbound.protocol.upper()}{secured}"
        paths.append(f"come in at {inbound.host}:{inbound.port} by {by}")
    if email.imap is not None:
        paths.append(f"are read from the mailbox of {email.imap.username} at {email.imap.host}")
    text = f"answers to {email.mailbox} {' and '.join(paths)}" if paths else "no answer comes in"
    if not (email.authentication.authserv_id and inbound.listen):
        return text
    return f"{text}. Mail of other servers is proven only by its signature"


async def dns(settings: Settings) -> list[Finding]:
    """Query the DNS once for each domain of the people: verifying signatures needs it."""
    email = settings.email
    if not email.verifies_dkim:
        return []
    given = email.authentication
    txt = Txt(given.nameservers, timeout=given.timeout)
    domains = {person.email.rpartition("@")[2].lower() for person in settings.everybody}
    asked = sorted(domains)[:_MOST_DOMAINS] or [email.domain]
    answers = await asyncio.gather(*(txt.records(f"_dmarc.{domain}") for domain in asked))
    if away := [domain for domain, one in zip(asked, answers, strict=True) if one is None]:
        text = (
            f"the DNS does not answer about {', '.join(away)}: signatures cannot be verified, so "
            "answers wait for some minutes and are then refused. Check [email.authentication] "
            "nameservers"
        )
        return [Finding("dns", "warning", text)]
    without = [domain for domain, one in zip(asked, answers, strict=True) if not one]
    text = f"it answers about {', '.join(asked)}"
    if without:
        text += f"; without a DMARC record, so that only DKIM proves senders: {', '.join(without)}"
    return [Finding("dns", "good", text)]
