"""Gives each process only its part of the settings, so that none has the secrets of another.

A worker runs third-party tools in its own process, and these tools could misuse any secret that the
worker has. So each kind of process gets only the environment variables and reads only the tables
that its own work needs, even if all processes share one file and one environment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

MAILBOX: Final = "mailbox"
"""The kind of the development mailbox."""

RULES: Final = "rules"
"""The kind of a command that evaluates people and policies, and connects to no server."""

WITHHELD: Final[Mapping[str, tuple[str, ...]]] = {
    # Gets Redis, ADK's sessions, remote agents, the key of suspended code, and the public keys.
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
    # Gets Redis, and all that sends cards: SMTP, the Slack bot, webhooks, custom channels.
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
    # Gets Redis, all that receives answers, the page, and sessions and agents for ADK's API.
    "gateway": ("ces", "email.smtp", "email.dkim", "webhooks", "inbox.push.private_key"),
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
"""The tables and keys that a kind of process does not get; ``*`` stands for any name."""

PREFIX: Final = "SIGNOFF_"
"""The beginning of the variables that are settings."""

NESTED: Final = "__"
"""Between the names of a table and of a setting in it, in a variable."""


def own_content(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a settings file without the parts that a kind of process must not see.

    The kind is a key of `WITHHELD`; "" is a command that a person runs, which gets everything.
    """
    found: Any = dict(content)
    for path in _paths(kind):
        found = _without(found, path)
    return dict(found)


def own_environment(kind: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that a kind of process must not see.

    The kinds are those of `own_content`. A variable that holds a whole table as JSON stays, without
    the withheld parts of the table.
    """
    found = {}
    for name, value in environment.items():
        # The name of a file that contains a secret is withheld like the secret.
        upper = name.upper().removesuffix("_FILE")
        place = upper.removeprefix(PREFIX).lower().split(NESTED)
        kept: str | None = value
        if upper.startswith(PREFIX):
            for path in _paths(kind):
                kept = _without_value(kept, place, path) if kept is not None else None
        if kept is not None:
            found[name] = kept
    return found


def drop_foreign_secrets(kind: str) -> None:
    """Restart this process if its environment has secrets that its kind must not see.

    The new process never has them in its memory or in ``/proc/self/environ``.
    """
    own = own_environment(kind, os.environ)
    if own != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], own)  # noqa: S606 -- the same command


def gets(kind: str, path: str) -> bool:
    """Return whether a kind of process gets a table or key; a command of a person gets all."""
    wanted = path.split(".")
    return not any(_is_below(wanted, withheld) for withheld in _paths(kind))


def _paths(kind: str) -> Sequence[Sequence[str]]:
    return [path.split(".") for path in WITHHELD.get(kind, ())]


def _without_value(text: str, place: Sequence[str], path: Sequence[str]) -> str | None:
    """Return the value of a variable without its withheld parts; None to drop the variable."""
    if _is_below(place, path):
        return None
    if not _is_below(path[: len(place)], place):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return None  # it may contain anything, and the settings refuse it anyway
    left = _without(value, path[len(place) :])
    return text if left == value else json.dumps(left)


def _is_below(place: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether a place is equal to a path, or below it."""
    return len(place) >= len(path) and all(
        mine == its or "*" in {mine, its} for mine, its in zip(place, path, strict=False)
    )


def _without(value: Any, path: Sequence[str]) -> Any:  # noqa: ANN401 -- JSON, or TOML
    """Return a value without the part at a path."""
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
