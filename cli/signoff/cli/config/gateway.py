"""Checks the gateway, and what it and the other processes serve."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from signoff.channels.aap.settings import REQUESTS_KEPT
from signoff.cli.config.faults import Found, defect, export, unknown_person, warning
from signoff.cli.config.settings import Settings
from signoff.core.base.networks import is_loopback

_MAKE = "$(openssl rand -base64 32)"


def check(settings: Settings) -> Iterator[Found]:
    """Find the faults of [gateway]."""
    gateway, known = settings.gateway, [one.id for one in settings.people]
    if gateway.local_person and (fault := unknown_person(gateway.local_person, known)):
        yield ("gateway", "local_person"), fault
    if gateway.local_person and not settings.local_programs:
        message = "it has no effect while programs on this machine need a token"
        remedy = "Give a token a `person`, or remove this."
        yield ("gateway", "local_person"), warning(message, remedy)
    if gateway.adk and settings.local_programs and settings.is_public:
        message = "programs on this machine need no token, and requests come from other machines"
        remedy = (
            "Remove it: behind a proxy on this machine, every request can look like one from here. "
            "`signoff tokens create` creates tokens."
        )
        yield ("gateway", "local"), warning(message, remedy)
    if gateway.adk_web and not gateway.adk:
        message = "the page needs the API"
        yield ("gateway", "adk_web"), defect(message, "Set adk = true, or remove this.")
    hashes: dict[str, int] = {}
    for index, token in enumerate(gateway.tokens):
        loc = ("gateway", "tokens", index)
        first = hashes.setdefault(token.sha256, index)
        if first != index:
            message = f"it is the token of gateway.tokens[{first}]"
            yield (*loc, "sha256"), defect(message, "Create another: openssl rand -base64 32.")
        if token.person and (fault := unknown_person(token.person, known)):
            yield (*loc, "person"), fault
        if token.person and token.users:
            message = "anybody who has it can submit a request and approve it"
            remedy = "Use one token to submit (`users`) and another to answer (`person`)."
            yield loc, warning(message, remedy)
        if not token.person and not token.users:
            message = "it allows nothing"
            yield loc, warning(message, "Set `users`, or `person`.")


def inbox(settings: Settings) -> Iterator[Found]:
    """Find policies and links that need a page or a mailbox elsewhere."""
    for loc, rule in settings.rules:
        if rule.second_step not in {"", "false"} and not settings.inbox.url:
            message = "there is no page for the second step"
            remedy = (
                'Set [inbox] url = "https://approvals.example.com", and give each gateway its key: '
                f"{export(('inbox', 'secret_key'), _MAKE)}. Or remove second_step."
            )
            yield (*loc, "second_step"), defect(message, remedy)
    here = is_loopback(urlsplit(settings.inbox.url).hostname or "localhost")
    if "link" in settings.inbox.sign_in and not here and is_loopback(settings.email.domain):
        message = "links by mail do not leave this machine, because the mailbox is on it"
        remedy = 'Set sender, mailbox and [email.smtp], or remove "link".'
        yield ("inbox", "sign_in"), warning(message, remedy)


def page_key(settings: Settings) -> Iterator[Found]:
    """Find a page without its key."""
    if settings.inbox.url and not settings.inbox.secret_key.get_secret_value():
        message = "the page has no key to encrypt its second factors with"
        remedy = (
            f"Make one, keep it, and give it to each gateway: "
            f"{export(('inbox', 'secret_key'), _MAKE)}"
        )
        yield ("inbox", "secret_key"), defect(message, remedy)


def push(settings: Settings) -> Iterator[Found]:
    """Find notifications without their key."""
    if settings.inbox.push is not None and settings.inbox.notifies is None:
        message = "there is no key to sign notifications with"
        remedy = (
            "Make one, keep it, and give it to each channels process: "
            f"{export(('inbox', 'push', 'private_key'), _MAKE)}"
        )
        yield ("inbox", "push", "private_key"), defect(message, remedy)


def metrics(settings: Settings) -> Iterator[Found]:
    """Find metrics that anybody can read."""
    found = settings.metrics
    reachable = settings.is_public or not is_loopback(found.host)
    if found.enabled and reachable and not found.token.get_secret_value():
        message = "other machines can reach the metrics without a token"
        remedy = (
            f"{export(('metrics', 'token'), _MAKE)}, and give the same to Prometheus as its "
            "bearer token."
        )
        yield ("metrics", "token"), defect(message, remedy)


def aap(settings: Settings) -> Iterator[Found]:
    """Find an archive that takes the requests of instances too early."""
    after = settings.retention.after
    if settings.aap.enabled and after is not None and after < REQUESTS_KEPT:
        message = "agents that ask by [aap] may ask for a decision again for eight days"
        yield ("retention", "after"), defect(message, "Set it to 8d or longer.")
