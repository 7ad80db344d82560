"""`signoff mcp`: approvals in front of MCP servers."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from signoff.cli.commands.session import settings_of
from signoff.core.base.errors import ConfigError
from signoff.core.base.networks import is_loopback

app = typer.Typer(no_args_is_help=True, help="Approvals for calls of MCP servers.")


@app.callback()
def _group() -> None:
    """Approvals for calls of MCP servers."""


@app.command()
def gate(
    ctx: typer.Context,
    *,
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="What policies name the server by: NAME.tool."),
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND …", help="What starts the server, behind --."),
    ] = None,
    client: Annotated[
        str,
        typer.Option(metavar="NAME", help="What policies name the client by, as their app."),
    ] = "mcp",
    user: Annotated[
        str,
        typer.Option(
            metavar="USER",
            help="The requester: an id or address of the person for whom the client works, who "
            "never decides. The default is the name of the client.",
        ),
    ] = "",
    session: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Sets clients of one name apart. The same call is the same approval only within "
            "a session.",
        ),
    ] = "",
    wait: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How long a call waits for a decision before the client has to call again.",
        ),
    ] = "50s",
    env_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Variables for the server and for --header, NAME=value on each line.",
        ),
    ] = None,
    url: Annotated[
        str, typer.Option(metavar="URL", help="The server, where it speaks streamable HTTP.")
    ] = "",
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME: VALUE'",
            help="Sent to --url with each request; ${VARIABLE} is replaced. Can be repeated.",
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Where to serve /mcp for --url. Port 0 takes a free one."
        ),
    ] = "127.0.0.1:8765",
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens",
            help="Each client has the token of an instance (`signoff aap instance add`), which "
            "names client and requester. Needed where other machines reach it.",
        ),
    ] = False,
) -> None:
    """Stand in front of an MCP server: every call of a tool needs an approval.

    All other messages pass unchanged. With a command it speaks to the client by its standard
    streams; with --url it serves streamable HTTP. A call that is asked about waits; after --wait
    the client reads that it still waits. The same call made again waits on, and runs once.
    """
    settings = settings_of(ctx)
    from signoff.channels.mcp.records import Caller  # noqa: PLC0415 -- redis takes a while
    from signoff.cli.composition import mcp  # noqa: PLC0415

    for option, given in (("--name", name), ("--client", client)):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", given):
            raise ConfigError(
                f"{option}: {given!r} is no name: use letters, digits, - and _, at most 64, "
                "beginning with a letter."
            )
    if bool(command) == bool(url):
        raise ConfigError("Name the server: by a command behind --, or by --url.")
    caller = Caller(client, user or client, session or f"mcp-{name}", name)
    env, within = mcp.server_environment(env_file), _seconds(wait)
    if command:
        raise typer.Exit(mcp.run_stdio(settings, caller, command, env=env, wait=within))
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        raise ConfigError(f"--listen: {listen!r} is not of the form HOST:PORT.")
    if not tokens and not is_loopback(host):
        raise ConfigError(f"--listen: other machines reach {host}; add --tokens.")
    headers = dict(mcp.header_of(one, env) for one in header or ())
    raise typer.Exit(
        mcp.run_http(
            settings,
            caller,
            address=(host, int(port)),
            url=url,
            headers=headers,
            wait=within,
            tokens=tokens,
        )
    )


def _seconds(text: str) -> float:
    from signoff.core.base.durations import parse_duration  # noqa: PLC0415 -- as above

    try:
        found = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--wait: {error}") from error
    return found.total_seconds() if isinstance(found, timedelta) else 0
