"""`signoff mcp`: approvals for calls of MCP servers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from signoff.cli.commands.context import settings_of
from signoff.core.base.errors import ConfigError
from signoff.core.base.networks import is_loopback

_LAST_PORT: Final = 65535

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
        typer.Argument(metavar="COMMAND", help="What starts the server, behind --."),
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
    """Run a gate in front of an MCP server: every tool call needs an approval.

    All other messages pass unchanged. With a command, the gate uses its standard streams for the
    client; with --url it serves streamable HTTP. A call waits for its decision; after --wait the
    client gets the answer that it still waits. If the client makes the same call again, the call
    continues to wait, and runs once.
    """
    settings = settings_of(ctx)
    from signoff.channels.mcp.records import Caller  # noqa: PLC0415 -- redis takes a while
    from signoff.channels.webhooks.addresses import why_refused  # noqa: PLC0415
    from signoff.cli.composition import mcp  # noqa: PLC0415

    if bool(command) == bool(url):
        raise ConfigError("Name the server: by a command behind --, or by --url.")
    _require_name("--name", name)
    _require_name("--client", client)
    caller = Caller(client, user or client, session or f"mcp-{name}", name)
    env, within = mcp.server_environment(env_file), _seconds(wait)
    if command:
        raise typer.Exit(asyncio.run(mcp.pipe(settings, caller, command, env=env, wait=within)))
    address = _address(listen, tokens=tokens)
    if problem := why_refused(url, allow_private=True):
        raise ConfigError(f"--url: {problem}.")
    headers = dict(mcp.header_of(one, env) for one in header or ())
    serving = mcp.serve(
        settings, caller, address=address, url=url, headers=headers, wait=within, tokens=tokens
    )
    asyncio.run(serving)


def _require_name(option: str, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name):
        raise ConfigError(
            f"{option}: {name!r} is not a valid name: use letters, digits, - and _, at most 64, "
            "beginning with a letter."
        )


def _address(text: str, *, tokens: bool) -> tuple[str, int]:
    found = re.fullmatch(r"(.+):([0-9]{1,5})", text)
    if found is None or int(found[2]) > _LAST_PORT:
        raise ConfigError(f"--listen: {text!r} is not of the form HOST:PORT.")
    host = found[1].strip("[]")
    if not tokens and not is_loopback(host):
        raise ConfigError(f"--listen: other machines reach {host}; add --tokens.")
    return host, int(found[2])


def _seconds(text: str) -> float:
    from signoff.core.base.durations import parse_length  # noqa: PLC0415 -- as above

    if re.fullmatch(r" *0+ *(ms|[smhdw]) *", text):
        return 0  # the client is told at once that the call waits
    try:
        return parse_length(text).total_seconds()
    except ValueError as error:
        raise ConfigError(f"--wait: {error}") from error
