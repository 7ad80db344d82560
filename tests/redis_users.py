"""A Redis with the users of `signoff redis acl`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services import plain_redis
from signoff.broker.server.acl import ROLES, users

PASSWORDS = {role: f"password-of-{role}" for role in ROLES}
PREFIX = "{signoff}:"


@contextmanager
def guarded(folder: Path) -> Iterator[str]:
    """Start a Redis with these users, and yield its URL with an administrator's login."""
    folder.mkdir(exist_ok=True)
    lines = [*users(PREFIX, PASSWORDS), "user root on >root allkeys allchannels +@all"]
    (folder / "users.acl").write_text("\n".join(lines) + "\n")
    with plain_redis(
        folder, login="root:root", aclfile=f'"{folder}/users.acl"', appendonly="yes"
    ) as url:
        yield url


def url_of(url: str, role: str) -> str:
    """Return the URL with the login of a role."""
    return url.replace("root:root", f"signoff-{role}:{PASSWORDS[role]}")
