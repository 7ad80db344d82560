"""Checks the settings together, for errors that no single value shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import get_args

from pydantic import BaseModel

from signoff.cli.composition.credentials import NESTED, PREFIX, gets
from signoff.cli.config import (
    channels,
    deciders,
    gateway,
    grants,
    levels,
    mail,
    people,
    places,
    policies,
)
from signoff.cli.config.faults import ConfigErrors, Fault, Found, key_text, place_text, warning
from signoff.cli.config.settings import Settings, source_of


def check(settings: Settings, kind: str = "") -> list[Fault]:
    """Return all faults: errors before warnings, each in the order of the file.

    Settings that a kind of process does not get count as set; "" gets everything.
    """
    found: list[Found] = []
    for rule, needed in _RULES.items():
        if all(gets(kind, one) for one in needed):
            found += rule(settings)
    faults = [
        fault._replace(
            key=key_text(loc),
            source=source_of(settings, loc),
            place=place_text(loc, settings),
        )
        for loc, fault in found
    ]
    return sorted(faults, key=lambda fault: fault.severity == "warning")


def require(settings: Settings, kind: str = "") -> list[Fault]:
    """Refuse settings with errors, as `check` finds them; return the warnings.

    Raises:
        ConfigErrors: There is at least one error.
    """
    faults = check(settings, kind)
    if errors := [fault for fault in faults if fault.severity == "error"]:
        raise ConfigErrors(errors)
    return faults


def _variables(_: Settings) -> Iterator[Found]:
    """Find variables that have one underscore where a setting needs two."""
    present = {name.upper(): value for name, value in os.environ.items()}
    for loc in _paths(Settings):
        parts = [part.upper() for part in loc]
        name = PREFIX + "_".join(parts)
        # Kubernetes sets SIGNOFF_GATEWAY_PORT=tcp://… for a service that is named signoff-gateway.
        if len(parts) > 1 and not present.get(name, "tcp://").startswith("tcp://"):
            remedy = f"Name it {PREFIX}{NESTED.join(parts)}, with two underscores between names."
            yield loc, warning(f"the variable {name} is not read", remedy)


def _paths(model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Return the paths of the settings in a table and in the tables inside it."""
    for name, field in model.model_fields.items():
        yield (name,)
        for one in (field.annotation, *get_args(field.annotation)):  # a table, or one or None
            if isinstance(one, type) and issubclass(one, BaseModel):
                yield from ((name, *path) for path in _paths(one))


_RULES: Mapping[Callable[[Settings], Iterable[Found]], tuple[str, ...]] = {
    _variables: (),
    people.identities: (),
    people.check: ("slack.bot_token",),
    policies.check: ("slack.bot_token", "email"),
    policies.default: ("slack.bot_token", "email"),
    levels.check: ("slack.bot_token", "channels"),
    deciders.check: (),
    grants.check: (),
    policies.long_running_calls: (),
    policies.inputs: (),
    mail.check: ("email.smtp",),
    mail.sending: ("email.smtp",),
    mail.reading: ("email.imap",),
    mail.inbound: ("email.imap", "email.webhook"),
    channels.slack: ("slack.bot_token",),
    channels.clicks: ("slack.app_token", "slack.signing_secret"),
    channels.check: ("channels",),
    mail.authentication: ("email",),
    gateway.check: ("gateway",),
    gateway.inbox: ("inbox.url", "email"),
    gateway.page_key: ("inbox.secret_key",),
    gateway.push: ("inbox.push.private_key",),
    places.check: (),
    places.code: ("ces",),
    gateway.metrics: ("metrics",),
    gateway.aap: ("aap",),
}
"""Each check, with the tables and keys that a process needs to apply it."""
