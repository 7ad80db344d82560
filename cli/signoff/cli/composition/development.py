"""`signoff up`: everything that is needed on one machine, as one process."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import signal
import socket
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.server.private import private_folder
from signoff.cli.commands.mail.mailbox import folder_of
from signoff.cli.composition.kinds import KINDS
from signoff.cli.composition.supervisor import ChildDied, Echo, NotReady, Supervisor, tether
from signoff.cli.config.check import require
from signoff.cli.config.settings import CONFIG_VARIABLE, Settings
from signoff.cli.log import hide_passwords
from signoff.cli.terminal import make_console
from signoff.core.base.errors import ConfigError

_COLOURS = {"worker": "cyan", "channels": "magenta", "gateway": "green", "mailbox": "blue"}
_WIDTH = max(map(len, _COLOURS))


async def run_up(settings: Settings, *, redis_port: int, console: Console | None = None) -> None:
    """Run everything until SIGINT or SIGTERM, and leave nothing behind.

    Args:
        settings: The settings; what they leave open is provided here.
        redis_port: Where Redis is started, if [redis] url is not set.
        console: Where output goes; standard error where none is given.

    Raises:
        ConfigErrors: The settings have errors.
        ConfigError: It runs already in this folder, or Redis cannot be started.
        ChildDied: A process ended without being told to.
    """
    out = console or make_console(stderr=True, soft_wrap=True)
    require(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(_alone(settings.state_folder))
        environment = {CONFIG_VARIABLE: str(settings.file)} if settings.file else {}
        if "url" not in settings.redis.model_fields_set:
            _require_free(redis_port)
            redis = EmbeddedRedis(settings.redis_folder, port=redis_port, launcher=tether())
            stack.enter_context(redis)
            environment["SIGNOFF_REDIS__URL"] = redis.url
            _say(out, f"Redis at {hide_passwords(redis.url)}, in {redis.folder}")
        supervisor = await stack.enter_async_context(Supervisor(echo=_prefixed(out)))
        stop = _on_signals()
        await _until(stop, _start(supervisor, settings, environment, out))
        if not stop.is_set():
            _say(out, "Everything is ready. Ctrl-C stops it.")
            await _until(stop, supervisor.watch())
        _say(out, "Stopping …")


async def _start(
    supervisor: Supervisor, settings: Settings, environment: dict[str, str], out: Console
) -> None:
    if "smtp" not in settings.email.model_fields_set:
        await supervisor.signoff("mailbox", "mailbox", "serve", "--port", "0", env=environment)
        await supervisor.ready("mailbox")
        port = supervisor.children["mailbox"].said["port"]
        environment["SIGNOFF_EMAIL__SMTP__PORT"] = str(port)
        _say(out, f"Mail goes to {folder_of(settings)}: `signoff mailbox list` shows it")
    for kind in KINDS:
        await supervisor.signoff(kind, kind, env=environment)
    await supervisor.ready()


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Await work, unless the signal to stop comes first.

    Raises:
        ChildDied, NotReady: As the work raises them.
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


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder: two Redis servers on one append-only file would ruin it.

    Raises:
        ConfigError: Somebody else holds it.
    """
    with (private_folder(folder) / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"`signoff up` runs already in {folder.parent}.") from error
        yield


def _require_free(port: int) -> None:
    """Refuse a port that somebody listens on.

    Raises:
        ConfigError: Somebody does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise ConfigError(
                f"port {port} is in use. If a Redis is running there and you mean that one, say "
                f'so: [redis] url = "redis://127.0.0.1:{port}/0". Else take another port: '
                "`signoff up --redis-port`.",
                key="redis.url",
            )


def _prefixed(out: Console) -> Echo:
    def echo(name: str, line: str) -> None:
        head = Text(f"{name:<{_WIDTH}} │ ", style=_COLOURS.get(name, ""))
        out.print(head + Text.from_ansi(line))

    return echo


def _say(out: Console, message: str) -> None:
    out.print(Text(f"{'up':<{_WIDTH}} │ ", style="bold") + Text(message))
