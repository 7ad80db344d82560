"""`signoff up`: everything that is needed on one machine, as one process."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from signoff.broker.server.embedded import EmbeddedRedis, free_port
from signoff.broker.server.private import private_text
from signoff.cli.commands.mail.mailbox import folder_of
from signoff.cli.composition.first_steps import first_steps
from signoff.cli.composition.kinds import KINDS
from signoff.cli.composition.supervisor import ChildDied, Echo, NotReady, Supervisor, tether
from signoff.cli.config.check import require
from signoff.cli.config.settings import CONFIG_VARIABLE, Settings, load_settings
from signoff.cli.config.started import alone, provide
from signoff.cli.log import hide_passwords
from signoff.cli.terminal import make_console
from signoff.core.base.errors import ConfigError, SignoffError
from signoff.core.base.networks import is_loopback
from signoff.worker.agent_folders import agents_in

_COLOURS = {"worker": "cyan", "channels": "magenta", "gateway": "green", "mailbox": "blue"}
_WIDTH = max(map(len, _COLOURS))
_KEY: Final = "page.key"
"""The file, in the state folder, of the key that encrypts the page's second factors."""


class UpFailed(SignoffError):
    """A process of `signoff up` did not become ready, or has ended."""


async def run_up(file: Path | None, *, redis_port: int) -> None:
    """Run everything until SIGINT or SIGTERM, and leave no process behind.

    Args:
        file: The settings; missing ones are provided here.
        redis_port: The port of Redis, if [redis] url is not set; 0 for any free port.

    Raises:
        ConfigErrors: The settings have errors.
        ConfigError: There are no agents here, `signoff up` already runs in this folder, or Redis
            cannot be started.
        UpFailed: A process ended unexpectedly, or did not start.
    """
    out = make_console(stderr=True, soft_wrap=True)
    async with AsyncExitStack() as stack:
        settings = load_settings(file)
        _require_agents(settings)
        stack.enter_context(alone(settings.state_folder))
        given = _provision(settings)
        provide(settings.state_folder, given)
        effective = load_settings(file)
        require(effective)
        for line in first_steps(effective):
            _say(out, line)
        if "url" not in settings.redis.model_fields_set:
            if redis_port:
                _require_free(redis_port)
            redis = EmbeddedRedis(settings.redis_folder, port=redis_port, launcher=tether())
            stack.enter_context(redis)
            given["redis"] = {"url": redis.url}
            provide(settings.state_folder, given)
            _say(out, f"Redis at {hide_passwords(redis.url)}, in {redis.folder}")
        supervisor = await stack.enter_async_context(Supervisor(echo=_prefixed(out)))
        stop = _on_signals()
        try:
            await _until(stop, _start(supervisor, settings, given, out))
            if not stop.is_set():
                _say(out, "Everything is ready. Ctrl-C stops it.")
                await _until(stop, supervisor.watch())
        except (ChildDied, NotReady) as error:
            # The output of the processes is already shown above.
            raise UpFailed(
                f"{error.what} The lines above that begin with its name say why."
            ) from error
        _say(out, "Stopping …")


def _require_agents(settings: Settings) -> None:
    """Refuse a folder without agents before anything is written into it.

    Raises:
        ConfigError, AppNotFound: See `agents_in`.
    """
    try:
        agents_in(settings.agents_folder, settings.agents.remote)
    except ConfigError as error:
        if settings.file is not None:
            raise
        raise ConfigError(
            f"There is no signoff.toml in {settings.home}, and no folder of agents. Change into "
            "the folder that has them, or write both with `signoff init`."
        ) from error


def _provision(settings: Settings) -> dict[str, Any]:
    """Return the settings that are missing: the ports, and those of the page."""
    gateway, inbound, inbox = settings.gateway, settings.email.inbound, settings.inbox
    given: dict[str, Any] = {}
    port = gateway.port
    if port == 0 or "port" not in gateway.model_fields_set:
        port = _free(gateway.host, port)
        given["gateway"] = {"port": port}
    if inbound.listen and (inbound.port == 0 or "port" not in inbound.model_fields_set):
        given["email"] = {"inbound": {"port": _free(inbound.host, inbound.port)}}
    page = {} if inbox.url else {"url": f"http://localhost:{port}"}
    here = is_loopback(urlsplit(inbox.url).hostname or "localhost")
    if here and not inbox.secret_key.get_secret_value():
        page["secret_key"] = _page_key(settings.state_folder)
    return given | ({"inbox": page} if page else {})


def _page_key(folder: Path) -> str:
    """Return the key of the page in this folder; create it the first time."""
    file = folder / _KEY
    if not file.exists():
        private_text(file, secrets.token_urlsafe(32))
    return file.read_text("ascii")


async def _start(
    supervisor: Supervisor, settings: Settings, given: dict[str, Any], out: Console
) -> None:
    environment = {CONFIG_VARIABLE: str(settings.file)} if settings.file else {}
    if "smtp" not in settings.email.model_fields_set:
        await supervisor.signoff("mailbox", "mailbox", "serve", "--port", "0", env=environment)
        await supervisor.ready("mailbox")
        port = int(supervisor.children["mailbox"].report["port"])
        given.setdefault("email", {})["smtp"] = {"port": port}
        provide(settings.state_folder, given)
        _say(out, f"Mail goes to {folder_of(settings)}: `signoff mailbox list` shows it")
    for kind in KINDS:
        await supervisor.signoff(kind, kind, env=environment)
    await supervisor.ready()


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Await work, unless the signal to stop comes first.

    Raises:
        ChildDied, NotReady: The work has raised them.
    """
    doing = asyncio.create_task(work)
    waiting = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            await doing
    finally:
        for one in (doing, waiting):
            one.cancel()
            with contextlib.suppress(asyncio.CancelledError, ChildDied, NotReady):
                await one


def _on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _free(host: str, port: int) -> int:
    """Return this port, or another one if it is in use."""
    return port if port and not _taken(host, port) else free_port()


def _taken(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def _require_free(port: int) -> None:
    """Refuse a port that is in use.

    Raises:
        ConfigError: The port is in use.
    """
    if _taken("127.0.0.1", port):
        raise ConfigError(
            f"port {port} is in use. To use the Redis that runs there, set "
            f'[redis] url = "redis://127.0.0.1:{port}/0". Otherwise omit --redis-port: then any '
            "free port is used.",
            key="redis.url",
        )


def _prefixed(out: Console) -> Echo:
    def echo(name: str, line: str) -> None:
        head = Text(f"{name:<{_WIDTH}} │ ", style=_COLOURS.get(name, ""))
        out.print(head + Text.from_ansi(line))

    return echo


def _say(out: Console, message: str) -> None:
    out.print(Text(f"{'up':<{_WIDTH}} │ ", style="bold") + Text(message))
