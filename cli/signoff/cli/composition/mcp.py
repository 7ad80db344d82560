"""The processes of `signoff mcp gate`, through which clients use an MCP server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TextIO

import structlog
import uvicorn
from starlette.requests import Request

from signoff.channels.aap.instances import load
from signoff.channels.mcp.calls import Calls
from signoff.channels.mcp.http import Gate, Who, make_app, server_client
from signoff.channels.mcp.records import Caller
from signoff.channels.mcp.stdio import LONGEST_LINE, Pipe
from signoff.channels.web.bearer import Bearers
from signoff.channels.web.closing import Closing
from signoff.channels.web.problems import Problem
from signoff.cli import log as logs
from signoff.cli.composition.credentials import PREFIX
from signoff.cli.composition.http import Protocol, Server, listen
from signoff.cli.composition.monitoring import COMMAND, traced
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.process import ready, renewing
from signoff.cli.composition.reload import Reloader
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import ConfigError
from signoff.worker.adk_api.local import why_not_local

log = structlog.get_logger(__name__)

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")


def server_environment(file: Path | None) -> dict[str, str]:
    """Return the environment of the server: ours without Signoff's variables, plus a file's.

    The file has lines NAME=value; blank lines and lines that begin with # are ignored.

    Raises:
        ConfigError: The file cannot be read, or has other lines.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    if file is None:
        return env
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--env-file: {file} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or not name.isidentifier():
            raise ConfigError(f"--env-file: line {number} of {file} is not NAME=value.")
        env[name] = value
    return env


def header_of(text: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Return a header of the form ``Name: value``, with ``${VARIABLE}`` replaced.

    Raises:
        ConfigError: The text has another form, names a variable that is not set, or has a value
            that cannot be sent.
    """
    name, colon, given = text.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z0-9-]+", name.strip()):
        raise ConfigError(f"--header: {name!r} is not of the form 'Name: value'.")
    for found in _VARIABLE.findall(given):
        if found not in env:
            raise ConfigError(f"--header: the variable {found} is not set.")
    value = _VARIABLE.sub(lambda one: env[one[1]], given).strip()
    if not value.isprintable():
        raise ConfigError(f"--header: the value of {name} has a line break or control character.")
    return name.strip().lower(), value


@asynccontextmanager
async def _calls(settings: Settings, wait: float) -> AsyncIterator[tuple[Parts, Calls]]:
    """Yield the parts, and the calls that ask for approvals by the current policies."""
    logs.configure(settings.logging)
    parts = build(settings)
    router = parts.router()
    calls = Calls(
        parts.decisions,
        router.decide_unasked,
        router.hides,
        valid_for=settings.agents.valid_for,
        wait=wait,
    )

    def renew(fresh: Settings) -> None:
        router.use(fresh.policies, fresh.default)

    reloader = Reloader(settings, "", renewing(parts), renew)
    try:
        with traced(settings, COMMAND):
            await parts.ledger.now()
            await reloader.start()
            yield parts, calls
    finally:
        await reloader.stop()
        await parts.ledger.close()


def _is_pipe(stream: TextIO) -> bool:
    """Return whether asyncio can wait for a standard stream: not for a file or /dev/null."""
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()


async def pipe(
    settings: Settings,
    caller: Caller,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    wait: float,
) -> int:
    """Start a server and pass messages between it and the standard streams; return its exit code.

    Raises:
        ConfigError: The server cannot be started, or a stream is no pipe.
        LedgerUnavailable: Redis cannot be reached.
    """
    for stream in (sys.stdin, sys.stdout):
        if not _is_pipe(stream):
            raise ConfigError(
                f"{stream.name} is not a pipe: an MCP client has to start this command, and writes "
                "to it."
            )
    loop = asyncio.get_running_loop()
    read = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(read), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, sys.stdout
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def write(line: str) -> None:
        writer.write(line.encode(errors="replace") + b"\n")
        await writer.drain()

    async with _calls(settings, wait) as (_, calls):
        gate = Pipe(calls, caller, read=read, write=write, command=command, env=env)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, gate.stop)
        try:
            code = await gate.run()
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be started: {error}") from error
    return max(code, 0)


async def serve(
    settings: Settings,
    caller: Caller,
    *,
    address: tuple[str, int],
    url: str,
    headers: Mapping[str, str],
    wait: float,
    tokens: bool,
) -> None:
    """Serve a gate in front of the server at a URL until a signal stops it.

    Args:
        settings: The settings.
        caller: Names the server, and without `tokens` also the client.
        address: Where to listen.
        url: The server.
        headers: Added to each request to the server.
        wait: Seconds that a client waits for a decision.
        tokens: Whether each client authenticates with the token of an instance.

    Raises:
        ConfigError: The address cannot be used.
        LedgerUnavailable: Redis cannot be reached.
    """
    async with _calls(settings, wait) as (parts, calls), server_client() as http:
        who = _by_token(parts, caller) if tokens else local(caller)
        app = make_app(Gate(calls, who, url=url, headers=headers, http=http))
        app.state.closing = Closing()
        app.state.closing.add(calls.close)
        config = uvicorn.Config(
            app,
            http=Protocol,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=10,
        )
        server = Server(config, lambda port: ready("mcp", port=port))
        server.stop_on_signals()
        with listen(*address) as listening:
            await server.serve(sockets=[listening])
        await calls.ended()


def local(caller: Caller) -> Who:
    """Treat all programs of our own user on this machine as one client."""

    async def who(request: Request) -> Caller:
        if problem := why_not_local(request):
            detail = f"This request is refused: {problem}. Other clients need --tokens."
            raise Problem(403, "not-local", "Not from this machine", detail)
        return caller

    return who


def _by_token(parts: Parts, caller: Caller) -> Who:
    """Identify a client as the instance whose token it sends."""
    bearers = Bearers(parts.decisions, parts.settings.gateway.rate)

    async def who(request: Request) -> Caller:
        access, _ = await bearers.admit(request)
        found = await load(parts.ledger, access.instance) if access.instance else None
        if found is None or found.deleted_at is not None or found.token != access.id:
            detail = "Send the token of an instance: `signoff aap instance add` makes one."
            raise Problem(403, "not-an-instance", "Not the token of an instance", detail)
        return Caller(found.app, found.user, found.id, caller.server, token=access.id)

    return who
