"""Redis users with least privilege for each kind of process (an ACL file of Redis 7).

Redis checks the keys in scripts too, so a script gives a user no further access.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from signoff.broker.server.cluster import celery_prefix

WORKER: Final = "worker"
CHANNELS: Final = "channels"
GATEWAY: Final = "gateway"
OPERATOR: Final = "operator"
ROLES: Final = (WORKER, CHANNELS, GATEWAY, OPERATOR)

_ALL: Final = "WCG"
_ROUTING: Final = "CG"
FAMILIES: Final[Mapping[str, str]] = {
    # Scripts get the prefix as a key, and build all other keys from it.
    "": _ALL,
    # Approvals, runs and their indexes.
    "approval:*": _ALL,
    "approvals": _ALL,
    "run:*": _ALL,
    "runs": _ALL,
    "waiting": _ALL,
    "decided": _ALL,
    "unreachable": _ALL,
    "inbox:*": _ALL,
    "queue:*": _ALL,
    "requests:*": _ALL,
    "sessions": _ALL,
    "proposals": _ALL,
    "search:*": _ALL,
    # Sessions of agents. The channels process deletes expired ones.
    "session:*": _ALL,
    "history:*": _ALL,
    "state:*": _ALL,
    "listed": _ALL,
    "listed:*": _ALL,
    "grant:*": _ROUTING,
    "grants": _ROUTING,
    "scope:*": _ROUTING,
    "uses:*": _ALL,
    "similar:*": _ALL,
    "allowance:*": _ROUTING,
    # Suspended code, and requests to remote agents.
    "snapshot:*": "W",
    "sandbox:*": "W",
    "arguments:*": "W",
    "journal:*": "W",
    "posted:*": "W",
    "events:*": "WG",
    # Work: a worker claims its own stages, and adds work to others.
    "stages": _ALL,
    "bells": _ALL,
    "outbox:*": "wCG",
    "items:*": "CG",
    **{
        f"{table}:{stage}": "W"
        for table in ("outbox", "items")
        for stage in ("run.*", "resume.*", "route", "deliver.*", "aap")
    },
    "done:*": _ALL,
    "lease:*": _ALL,
    "stuck": _ALL,
    "stuck:*": _ALL,
    "dead": _ALL,
    "dead:*": _ALL,
    # Mail, Slack and webhooks.
    "token:*": _ROUTING,
    "mail:*": _ROUTING,
    "seen:*": _ROUTING,
    "webhook:*": "G",
    "imap:*": "G",
    "consent:*": _ROUTING,
    "quarantine": _ROUTING,
    "quarantine:*": _ROUTING,
    "key:message-ids": _ROUTING,
    "slack:*": _ROUTING,
    "bundle:*": _ROUTING,
    "told:*": _ROUTING,
    "webhooks": "C",
    "instance:*": _ROUTING,
    "mcp:*": _ROUTING,
    # People.
    "absences": "wCG",
    "groups": "wCG",
    "turns:*": _ALL,
    "directory": _ALL,
    "vacancies": "C",
    "policies": "C",
    "freezes": "wcG",
    # Signing in: second factors, passkeys, invitations and tokens.
    "factor:*": "G",
    "passkey:*": "G",
    "passkeys:*": "cG",
    "challenge:*": "G",
    "invitation:*": "G",
    "login:*": "G",
    "logins:*": "CG",
    "oidc:*": "G",
    "epoch:*": _ROUTING,
    "push:*": _ROUTING,
    "link:*": _ROUTING,
    "form:*": "G",
    "text:*": "G",
    "access:*": "G",
    "idempotent:*": "G",
    "tries:*": _ROUTING,
    "rate:*": _ROUTING,
    # Processes and the audit.
    "alive:*": _ALL,
    "processes": _ALL,
    "samples": "G",
    "replicated": _ALL,
    "probe:*": "G",
    "audit": _ALL,
    "audit:*": _ALL,
    "trails": _ALL,
    "archive": "wCG",
}
"""The roles with access to each key pattern: W, C and G read and write, w, c and g only read."""

_COMMANDS: Final = "-@all +@read +@write +@connection +@transaction +@pubsub -@dangerous"
_SCRIPTS: Final = "+evalsha +script|load +script|exists +time +info +cluster|slots"
_OPERATOR: Final = "+@all -@admin -@dangerous +info +config|get +restore"
_CELERY: Final = ("signoff.*", "_kombu.*", "unacked*", "*.pidbox*")


def users(prefix: str, passwords: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of an ACL file.

    Args:
        prefix: The prefix of the ledger's keys.
        passwords: The passwords by role; the file contains their hashes.
    """
    start = re.sub(r"([\\*?\[\]])", r"\\\1", prefix)
    yield "user default off resetchannels -@all"
    for role in ROLES:
        secret = hashlib.sha256(passwords[role].encode()).hexdigest()
        keys = " ".join((f"~{celery_prefix(start)}*", *_keys(role, start)))
        commands = _OPERATOR if role == OPERATOR else f"{_COMMANDS} {_SCRIPTS}"
        yield f"user signoff-{role} on #{secret} resetchannels &* {commands} {keys}"


def _keys(role: str, start: str) -> Iterator[str]:
    """Yield the patterns of the keys that a role may use."""
    yield from (f"~{one}" for one in _CELERY)
    if role == OPERATOR:
        yield f"~{start}*"
        return
    letter = role[0]
    for family, letters in FAMILIES.items():
        if letter.upper() in letters:
            yield f"~{start}{family}"
        elif letter in letters:
            yield f"%R~{start}{family}"
