"""Processes that are a gate in front of an MCP server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import structlog
import uvicorn
from starlette.requests import Request

from signoff.channels.aap.instances import load
from signoff.channels.mcp.calls import Calls
from signoff.channels.mcp.http import Gate, Who, make_app
from signoff.channels.mcp.records import Caller
from signoff.channels.mcp.stdio import LONGEST_LINE, Pipe
from signoff.channels.web.bearer import Bearers
from signoff.channels.web.problems import Problem
from signoff.cli import log as logs
from signoff.cli.composition.http import Protocol, Server, listen
from signoff.cli.composition.monitoring import COMMAND, traced
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.process import ready, renewing
from signoff.cli.composition.reload import Reloader
from signoff.cli.composition.routing import router_of
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import ConfigError
from signoff.core.base.networks import is_loopback

log = structlog.get_logger(__name__)

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_OWN: Final = "SIGNOFF_"


def run_stdio(
    settings: Settings,
    caller: Caller,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    wait: float,
) -> int:
    """Start a server and pass messages between it and the standard streams; return its exit code.

    Raises:
        ConfigError: The server cannot be started.
        LedgerUnavailable: Redis cannot be reached.
    """
    return asyncio.run(_piped(settings, caller, command, env=env, wait=wait))


def run_http(
    settings: Settings,
    caller: Caller,
    *,
    address: tuple[str, int],
    url: str,
    headers: Mapping[str, str],
    wait: float,
    tokens: bool,
) -> int:
    """Serve a gate in front of a server that has this URL, until told to stop.

    Args:
        settings: The settings.
        caller: The client, where `tokens` is not set; its server in any case.
        address: Where to listen.
        url: The server.
        headers: What the server gets with each request.
        wait: Seconds that a client waits for a decision.
        tokens: Whether each client proves itself by the token of an instance.

    Raises:
        ConfigError: The address cannot be used.
        LedgerUnavailable: Redis cannot be reached.
    """
    return asyncio.run(
        _served(settings, caller, address, url=url, headers=headers, wait=wait, tokens=tokens)
    )


def server_environment(file: Path | None) -> dict[str, str]:
    """Return the environment of the server: this one, without Signoff's, and that of a file.

    Args:
        file: Has lines of the form NAME=value; blank lines and those that begin with # say nothing.

    Raises:
        ConfigError: The file cannot be read, or has other lines.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
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
        ConfigError: It has another form, or names a variable that is not set.
    """
    name, colon, value = text.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z0-9-]+", name.strip()):
        raise ConfigError(f"--header: {name!r} is not of the form 'Name: value'.")
    for found in _VARIABLE.findall(value):
        if found not in env:
            raise ConfigError(f"--header: the variable {found} is not set.")
    return name.strip().lower(), _VARIABLE.sub(lambda one: env[one[1]], value.strip())


@asynccontextmanager
async def _calls(settings: Settings, wait: float) -> AsyncIterator[tuple[Parts, Calls]]:
    """Yield what asks about calls, by the policies as they are at any time."""
    logs.configure(settings.logging)
    parts = build(settings)
    router = router_of(parts)
    calls = Calls(
        parts.decisions, router.decide_unasked, valid_for=settings.agents.valid_for, wait=wait
    )

    def follow(fresh: Settings) -> None:
        router.follow(fresh.policies, fresh.default)

    reloader = Reloader(settings, "", renewing(parts), follow)
    try:
        with traced(settings, COMMAND):
            await parts.ledger.now()
            await reloader.start()
            yield parts, calls
    finally:
        await reloader.stop()
        await parts.ledger.close()


async def _piped(
    settings: Settings,
    caller: Caller,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    wait: float,
) -> int:
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
        pipe = Pipe(calls, caller, read=read, write=write, command=command, env=env)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, pipe.stop)
        try:
            code = await pipe.run()
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be started: {error}") from error
    return max(code, 0)


async def _served(
    settings: Settings,
    caller: Caller,
    address: tuple[str, int],
    *,
    url: str,
    headers: Mapping[str, str],
    wait: float,
    tokens: bool,
) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    async with _calls(settings, wait) as (parts, calls), httpx.AsyncClient() as http:
        who = _by_token(parts, caller) if tokens else _local(caller)
        app = make_app(Gate(calls, who, url=url, headers=headers, http=http))
        app.state.closing = [calls.close]
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
        with listen(*address) as listening:
            await server.serve(sockets=[listening])
    return 0


def _local(caller: Caller) -> Who:
    """Take everybody on this machine for one client; a page in a browser is not."""

    async def who(request: Request) -> Caller:
        origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
        try:
            own = is_loopback(httpx.URL(f"http://{host}").host)
            own = own and (not origin or is_loopback(httpx.URL(origin).host))
        except httpx.InvalidURL:
            own = False
        if not own:
            detail = "This gate serves programs on its own machine. Other clients need --tokens."
            raise Problem(403, "not-local", "Not from this machine", detail)
        return caller

    return who


def _by_token(parts: Parts, caller: Caller) -> Who:
    """Take a client for the instance whose token it has."""
    bearers = Bearers(parts.decisions, parts.settings.gateway.rate)

    async def who(request: Request) -> Caller:
        access, _ = await bearers.admit(request)
        found = await load(parts.ledger, access.instance) if access.instance else None
        if found is None or found.deleted_at is not None or found.token != access.id:
            detail = "Send the token of an instance: `signoff aap instance add` makes one."
            raise Problem(403, "not-an-instance", "Not the token of an instance", detail)
        return Caller(found.app, found.user, found.id, caller.server, token=access.id)

    return who
