"""Checks Slack and custom channels: whether they exist and reach the people."""

from __future__ import annotations

from collections.abc import Iterator

from signoff.cli.config.faults import NO_SLACK, Found, Loc, defect, export, suggest, warning
from signoff.cli.config.settings import Settings
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.targets import EMAIL, SLACK, address_of


def check(settings: Settings) -> Iterator[Found]:
    """Yield the faults of channels, in policies and in the addresses of people."""
    yield from _addresses(settings)
    yield from _webhooks(settings)
    known = (EMAIL, SLACK, *settings.channels)
    for loc, rule in settings.rules:
        for name in rule.channels:
            if name not in known:
                message = f"{name!r} is not a channel"
                yield (*loc, "channels"), defect(message, _remedy(name, known))
            elif name != SLACK:
                yield from _unreached(settings, (*loc, "channels"), rule, name)


def slack(settings: Settings) -> Iterator[Found]:
    """Find Slack ids of two people, and policies that ask in Slack without an app."""
    owners: dict[str, str] = {}
    for index, person in enumerate(settings.people):
        owner = owners.setdefault(person.slack, person.id) if person.slack else person.id
        if owner != person.id:
            message = f"{person.slack} is already the Slack id of {owner!r}"
            remedy = "An id identifies the person who clicks, so it can belong to one person only."
            yield ("people", index, "slack"), defect(message, remedy)
    if settings.slack.enabled:
        return
    remedy = f"{NO_SLACK}, or remove it: then people are asked by mail."
    for loc, rule in settings.rules:
        if "slack" in rule.channels:
            yield (*loc, "channels"), defect("Slack is not set up", remedy)
        if rule.slack_channel:
            yield (*loc, "slack_channel"), defect("Slack is not set up", remedy)


def clicks(settings: Settings) -> Iterator[Found]:
    """Find an app whose clicks cannot be received."""
    if settings.slack.enabled and not settings.slack.takes_clicks:
        message = "cards could be sent, but clicks could not be received"
        remedy = (
            f"For Socket Mode: {export(('slack', 'app_token'), 'xapp-…')}. For HTTP: "
            f"{export(('slack', 'signing_secret'))}."
        )
        yield ("slack",), defect(message, remedy)


def _addresses(settings: Settings) -> Iterator[Found]:
    owners: dict[tuple[str, str], str] = {}
    for index, person in enumerate(settings.people):
        for name, address in person.addresses.items():
            loc: Loc = ("people", index, "addresses", name)
            if name not in settings.channels:
                remedy = _remedy(name, tuple(settings.channels))
                yield loc, defect(f"{name!r} is not a channel of your own", remedy)
            if owners.setdefault((name, address), person.id) != person.id:
                message = f"{address} is already the address of {owners[name, address]!r}"
                remedy = "An address identifies who answers, so it can belong to one person only."
                yield loc, defect(message, remedy)


def _unreached(settings: Settings, loc: Loc, rule: Policy | Fallback, name: str) -> Iterator[Found]:
    people = [one for one in settings.people if one.active and one.id in rule.ask]
    without = [one.id for one in people if not address_of(one, name)]
    if without:
        message = f"no address in {name!r}, so asked by another channel: {', '.join(without)}"
        remedy = f'Add addresses = {{ {name} = "…" }} to [[people]].'
        yield loc, warning(message, remedy)


def _remedy(name: str, known: tuple[str, ...]) -> str:
    return suggest(name, known) or f'Add [channels.{name}] factory = "package.module:name".'


def _webhooks(settings: Settings) -> Iterator[Found]:
    names: dict[str, int] = {}
    for index, hook in enumerate(settings.webhooks):
        first = names.setdefault(hook.name, index)
        if first != index:
            message = f"{hook.name!r} is already the name of webhooks[{first}]"
            remedy = "Choose a unique name: each webhook has a queue of that name."
            yield ("webhooks", index, "name"), defect(message, remedy)
