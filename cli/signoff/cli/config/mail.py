"""Checks how mail is sent, comes in, and is proven."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from signoff.channels.email.imap.settings import OAuthSettings
from signoff.cli.config.faults import Found, Loc, defect, export, warning
from signoff.cli.config.settings import Settings
from signoff.core.base.networks import is_loopback
from signoff.core.directory.people import identity_key
from signoff.core.policies.policy import EmailProof


def check(settings: Settings) -> Iterator[Found]:
    """Find mail that is sent unencrypted, and addresses that do not fit."""
    email = settings.email
    smtp = email.smtp
    if smtp.security == "none" and not is_loopback(smtp.host):
        message = f"mail goes to {smtp.host} unencrypted, reply tokens included"
        remedy = "Set 'starttls' or 'tls' unless the network between is yours alone."
        yield ("email", "smtp", "security"), warning(message, remedy)
    sender = email.sender_address.rpartition("@")[2].lower()
    if sender != email.domain.lower():
        message = f"answers go to {email.domain}, but mails come from {sender}"
        remedy = "Mail programs distrust a Reply-To in another domain: use one domain for both."
        yield ("email", "mailbox"), warning(message, remedy)
    for index, person in enumerate(settings.people):
        if identity_key(person.email) in {
            identity_key(email.mailbox),
            identity_key(email.sender_address),
        }:
            message = f"{person.email} is Signoff's own address"
            yield ("people", index, "email"), defect(message, "Give the person's own address.")


def sending(settings: Settings) -> Iterator[Found]:
    """Find a login for sending mail that lacks its secret."""
    smtp, loc = settings.email.smtp, ("email", "smtp")
    if smtp.oauth is not None:
        yield from _tokens(loc, smtp.oauth)
    elif smtp.username and not smtp.password.get_secret_value():
        message = f"there is no password for {smtp.username}"
        remedy = f"{export((*loc, 'password'))}, or remove username."
        yield (*loc, "password"), defect(message, remedy)


def reading(settings: Settings) -> Iterator[Found]:
    """Find a login for reading mail that lacks its secret."""
    imap, loc = settings.email.imap, ("email", "imap")
    if imap is None:
        return
    if imap.oauth is not None:
        yield from _tokens(loc, imap.oauth)
    elif not imap.password.get_secret_value():
        message = f"there is no password for {imap.username}"
        remedy = f"{export((*loc, 'password'))}, or add the table [email.imap.oauth]."
        yield (*loc, "password"), defect(message, remedy)


def _tokens(loc: Loc, oauth: OAuthSettings) -> Iterator[Found]:
    if not oauth.grantable:
        message = "tokens cannot be requested without refresh_token or client_secret"
        remedy = (
            f"Set refresh_token, or only client_secret: {export((*loc, 'oauth', 'client_secret'))}"
        )
        yield (*loc, "oauth"), defect(message, remedy)


def inbound(settings: Settings) -> Iterator[Found]:
    """Find answers that come in unencrypted, or not at all."""
    email = settings.email
    imap = email.imap
    if imap is not None and imap.security == "none" and not is_loopback(imap.host):
        message = f"mail is read from {imap.host} unencrypted, password and reply tokens included"
        remedy = "Set 'starttls' or 'tls' unless the network between is yours alone."
        yield ("email", "imap", "security"), warning(message, remedy)
    if not (email.inbound.listen or imap or email.webhook.secrets or email.webhook.mailgun_secrets):
        message = "no answer by email can come in: this is off, and nothing else is set"
        remedy = "Set it to true, or add the table [email.imap] or [email.webhook]."
        yield ("email", "inbound", "listen"), warning(message, remedy)
    inbound = email.inbound
    if inbound.listen and not inbound.certificate and not is_loopback(inbound.host):
        message = f"mail is taken at {inbound.host} unencrypted, reply tokens included"
        remedy = "Set certificate, so that STARTTLS is offered."
        yield ("email", "inbound", "certificate"), warning(message, remedy)


def authentication(settings: Settings) -> Iterator[Found]:
    """Find proofs of answers by mail that are impossible or too weak."""
    given, loc = settings.email.authentication, ("email", "authentication")
    yield from provable(settings, (*loc, "require"), given.require)
    if given.require is EmailProof.TOKEN:
        message = "anybody who has a card's address can answer it, under any name"
        remedy = "Set it only in single policies (`email`), and keep the default stricter."
        yield (*loc, "require"), warning(message, remedy)
    wide = [one for one in given.relays if ipaddress.ip_network(one).prefixlen == 0]
    if given.authserv_id and wide:
        message = f"{wide[0]} means everybody, so anybody could add results to a mail"
        remedy = "Name the networks of your own mail servers."
        yield (*loc, "relays"), defect(message, remedy)


def provable(settings: Settings, loc: Loc, required: EmailProof | None) -> Iterator[Found]:
    """Compare the proof that answers by mail need with the proof that this set-up can verify."""
    if required is EmailProof.TOKEN_FROM_DMARC is not settings.email.strongest:
        message = f"nothing here can prove {required.value}: no answer by mail would count"
        remedy = "Set [email.authentication] dkim = true, or authserv_id."
        yield loc, defect(message, remedy)
