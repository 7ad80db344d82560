"""Which process gets which part of the settings: none gets the secrets of another.

A worker runs tools that others have written, in its own process. What those could do with a secret
they can do only if the worker has it. So each kind of process is started with the variables, and
reads the tables, that its own work takes; the settings may be one file and one environment for all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

MAILBOX: Final = "mailbox"
"""The mailbox for development."""

RULES: Final = "rules"
"""A command that tries people and policies, and reaches no server."""

WITHHELD: Final[Mapping[str, tuple[str, ...]]] = {
    # Redis, ADK's sessions, the agents elsewhere, the key of suspended code, and the public keys.
    "worker": (
        "aap",
        "email",
        "slack",
        "inbox",
        "webhooks",
        "channels",
        "gateway",
        "receipts.private_key",
    ),
    # Redis, and what cards go out with: SMTP, the bot of Slack, webhooks, channels of one's own.
    "channels": (
        "sessions",
        "ces",
        "gateway",
        "agents.remote.*.token",
        "agents.remote.*.headers",
        "email.imap",
        "email.webhook",
        "slack.app_token",
        "slack.signing_secret",
        "inbox.secret_key",
        "inbox.secret_key_previous",
        "inbox.oidc.client_secret",
    ),
    # Redis, what answers come in with, and the page; sessions and agents for ADK's API.
    "gateway": ("ces", "email.smtp", "email.dkim", "webhooks"),
    RULES: (
        "broker",
        "sessions",
        "ces",
        "gateway",
        "email.smtp",
        "email.imap",
        "email.webhook",
        "slack.app_token",
        "slack.signing_secret",
        "inbox.secret_key",
        "inbox.push.private_key",
        "receipts",
        "metrics",
    ),
    MAILBOX: (
        "aap",
        "redis",
        "broker",
        "sessions",
        "agents",
        "ces",
        "gateway",
        "email.smtp",
        "email.dkim",
        "email.imap",
        "email.webhook",
        "slack",
        "inbox",
        "webhooks",
        "channels",
        "receipts",
        "metrics",
    ),
}
"""Tables and keys that a kind of process does not get; ``*`` is any name."""

_PREFIX: Final = "SIGNOFF_"
_NESTED: Final = "__"


def own_content(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a settings file without what a kind of process does not get.

    Args:
        kind: Of `WITHHELD`; "" for a command of a person, which gets everything.
        content: The parsed file.
    """
    found: Any = dict(content)
    for path in _paths(kind):
        found = _without(found, path)
    return dict(found)


def own_environment(kind: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that a kind of process does not get.

    A variable that holds a whole table as JSON stays, without what is withheld of it.

    Args:
        kind: As for `own_content`.
        environment: Names and values.
    """
    found = {}
    for name, value in environment.items():
        # The name of a file with a secret is withheld as the secret is.
        upper = name.upper().removesuffix("_FILE")
        place = upper.removeprefix(_PREFIX).lower().split(_NESTED)
        kept: str | None = value
        if upper.startswith(_PREFIX):
            for path in _paths(kind):
                kept = _without_value(kept, place, path) if kept is not None else None
        if kept is not None:
            found[name] = kept
    return found


def drop_foreign_secrets(kind: str) -> None:
    """Begin this process anew, if its environment has what its kind does not get.

    Its memory then never held it, and ``/proc/self/environ`` does not show it.
    """
    own = own_environment(kind, os.environ)
    if own != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], own)  # noqa: S606 -- this very command


def gets(kind: str, path: str) -> bool:
    """Say whether a kind of process gets a table or key; a command of a person gets all."""
    wanted = path.split(".")
    return not any(_is_below(wanted, withheld) for withheld in _paths(kind))


def _paths(kind: str) -> Sequence[Sequence[str]]:
    return [path.split(".") for path in WITHHELD.get(kind, ())]


def _without_value(text: str, place: Sequence[str], path: Sequence[str]) -> str | None:
    """Return the value of a variable without what is withheld of it, None without the variable."""
    if _is_below(place, path):
        return None
    if not _is_below(path[: len(place)], place):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return None  # the settings refuse it, and what is in it nobody knows
    left = _without(value, path[len(place) :])
    return text if left == value else json.dumps(left)


def _is_below(place: Sequence[str], path: Sequence[str]) -> bool:
    """Say whether a place is what a path names, or inside of it."""
    return len(place) >= len(path) and all(
        mine == its or "*" in {mine, its} for mine, its in zip(place, path, strict=False)
    )


def _without(value: Any, path: Sequence[str]) -> Any:  # noqa: ANN401 -- JSON, or TOML
    """Return a value without what a path names in it."""
    if isinstance(value, list):
        return [_without(one, path) for one in value]
    if not isinstance(value, Mapping):
        return value
    head, *rest = path
    return {
        name: _without(one, rest) if _is_below([name], [head]) else one
        for name, one in value.items()
        if rest or not _is_below([name], [head])
    }
