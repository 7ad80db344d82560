"""`signoff redis`: the users of Redis for each kind of process."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from signoff.cli.commands.context import settings_of
from signoff.cli.terminal import say

app = typer.Typer(no_args_is_help=True, help="The users of Redis.")


@app.command()
def acl(
    ctx: typer.Context,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write `users.acl` there, and for each user the URL of Redis with a new password.",
        ),
    ] = None,
    url: Annotated[
        str, typer.Option(help="The URL of Redis in these files. The default is [redis] url.")
    ] = "",
) -> None:
    """Print an ACL file with a Redis user for each kind of process, or write it with passwords.

    The printed file has the password CHANGE-ME for each user. Files that exist are not overwritten.
    """
    from signoff.broker.server.acl import ROLES, users  # noqa: PLC0415

    settings = settings_of(ctx)
    if out is None:
        for line in users(settings.redis.prefix, dict.fromkeys(ROLES, "CHANGE-ME")):
            say(line)
        return
    passwords = {role: secrets.token_urlsafe(32) for role in ROLES}
    where = url or settings.redis.url
    files = {
        f"redis-{role}.url": _with_login(where, role, secret) for role, secret in passwords.items()
    }
    files["users.acl"] = "\n".join(users(settings.redis.prefix, passwords))
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is not a folder", param_hint="--out")
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    if existing := [name for name in files if (out / name).exists()]:
        raise typer.BadParameter(f"{out / existing[0]} exists already", param_hint="--out")
    for name, text in files.items():
        (out / name).write_text(text + "\n", encoding="utf-8")
        # The users of containers, whose ids differ, read it; only this user can open the folder.
        (out / name).chmod(0o644)
    say(f"Wrote {len(files)} files to {out}. Give each process its own URL file alone.")


def _with_login(url: str, role: str, password: str) -> str:
    scheme, _, rest = url.partition("://")
    first, slash, path = rest.partition("/")
    return f"{scheme}://signoff-{role}:{password}@{first.rpartition('@')[2]}{slash}{path}"
