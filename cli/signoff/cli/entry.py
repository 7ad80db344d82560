"""The entry point of the `signoff` command.

Health checks run every few seconds on every machine. So this module answers `signoff health`
without importing the command line, the settings or redis-py, which would take ten times as long as
the check. It also starts processes without the command line, which would stay in their memory. All
unusual cases are left to the command line.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from signoff.cli.composition.kinds import KINDS, here

_PATIENCE: Final = 5.0
_VARIABLES: Final = {"SIGNOFF_REDIS__URL", "SIGNOFF_REDIS__PREFIX"}
_KEYS: Final = {"url", "prefix", "durability"}
"""The settings of [redis] that this module can read without the settings classes."""
_PORT: Final = 6379

HOSTS: Final = frozenset({"demo", "doctor", "mcp", "up", *KINDS})
"""The commands that run agents or processes of their own."""

_COLLECTED_AFTER: Final = 200_000
"""The garbage collector's threshold; commands that list little create fewer objects than this."""


def main() -> None:
    """Run the command that the arguments name, and exit."""
    try:
        for quick in (quick_health, quick_start):
            if (code := quick(sys.argv[1:])) is not None:
                sys.exit(code)
        # Any word counts: the command may follow `--config=FILE`, which `_words` does not parse.
        if HOSTS.isdisjoint(sys.argv[1:]):
            _spare_time()
        from signoff.cli.tree import run  # noqa: PLC0415 -- slow; quick commands do not need it

        run()
    except KeyboardInterrupt:
        # Ctrl-C while modules are imported: no command is running yet that would handle it.
        sys.exit(128 + signal.SIGINT)
    except OSError as error:
        # The help is written before there is a command that would handle it.
        from signoff.cli.boundary import exit_code  # noqa: PLC0415 -- as in main

        sys.exit(exit_code(error))


def quick_health(arguments: Sequence[str]) -> int | None:
    """Answer `signoff [--config FILE] health KIND [--json]`.

    Returns:
        The exit code; None if it is another command or an unusual case. Then nothing was written.
    """
    words, config = _words(arguments)
    if words[:1] != ["health"] or len(words) < 2 or words[1] not in KINDS:
        return None
    if words[2:] not in ([], ["--json"]):
        return None
    kind, found = words[1], None
    # The full command reports what is wrong.
    with suppress(Exception):
        found = _found(kind, config)
    if found is None:
        return None
    if words[2:]:
        text = json.dumps({"kind": kind, "alive": found}, indent=2)
    else:
        text = f"{kind}: {', '.join(found) or 'none is alive on this machine'}"
    sys.stdout.write(f"{text}\n")
    return 0 if found else 1


def quick_start(arguments: Sequence[str]) -> int | None:
    """Run `signoff [--config FILE] channels`, `gateway` or `worker` until it is told to stop.

    Returns:
        The exit code; None if it is another command, such as `signoff worker --app NAME`.
    """
    words, config = _words(arguments)
    if len(words) != 1 or words[0] not in KINDS:
        return None
    from signoff.broker.server.private import PRIVATE_UMASK  # noqa: PLC0415 -- as in main
    from signoff.cli.start import start  # noqa: PLC0415

    os.umask(PRIVATE_UMASK)
    try:
        return start(words[0], Path(config) if config else None)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- it becomes a message
        from signoff.cli.boundary import exit_code  # noqa: PLC0415

        return exit_code(error)


def _spare_time() -> None:
    """Skip work that pays off only in long-lived processes or for third-party code.

    This saves more than a fifth of the time of a short command. The garbage collector would visit
    all imported objects repeatedly, and once more at exit: a collection of 50,000 objects takes
    40 ms. Pydantic would read the metadata of every installed distribution to find plugins.
    """
    gc.set_threshold(_COLLECTED_AFTER)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _words(arguments: Sequence[str]) -> tuple[list[str], str]:
    """Return the command with its arguments, and the file of ``--config``."""
    words = list(arguments)
    return (words[2:], words[1]) if words[:1] == ["--config"] and len(words) > 1 else (words, "")


def _found(kind: str, config: str) -> list[str] | None:
    """Return the names of the living processes of a kind on this machine."""
    settings = _redis_settings(config)
    if settings is None or not settings.get("url"):
        return None
    key = f"{settings.get('prefix', '{signoff}:')}processes"
    replies = _ask(settings["url"], ("TIME",), ("ZRANGE", key, "0", "-1", "WITHSCORES"))
    if replies is None:
        return None
    (seconds, micros), flat = replies
    now = int(seconds) * 1000 + int(micros) // 1000
    living = [name for name, until in zip(flat[::2], flat[1::2], strict=True) if float(until) > now]
    names = (one.removeprefix(f"{kind}:") for one in living if one.startswith(f"{kind}:"))
    return sorted(name for name in names if here(name))


def _redis_settings(config: str) -> dict[str, str] | None:
    """Return the table [redis], as `signoff.cli.config.settings.load_settings` would read it."""
    import tomllib  # noqa: PLC0415 -- only `signoff health` needs it

    given = {name.upper(): value for name, value in os.environ.items()}
    of_redis = {name for name in given if name.startswith("SIGNOFF_REDIS")}
    named = config or given.get("SIGNOFF_CONFIG", "")
    file = Path(named or "signoff.toml")
    table: dict[str, Any] = {}
    if named or file.is_file():
        table = tomllib.loads(file.read_text("utf-8")).get("redis", {})
    if not of_redis <= _VARIABLES or not set(table) <= _KEYS:
        return None
    for name in of_redis:
        table[name.rpartition("__")[2].lower()] = given[name]
    return table


def _ask(url: str, *commands: tuple[str, ...]) -> list[Any] | None:
    """Send commands to a Redis and return the replies; None for a URL with options.

    Raises:
        OSError: Redis cannot be reached, or has refused a command.
    """
    import hiredis  # noqa: PLC0415 -- only `signoff health` needs it

    parts = urlsplit(url)
    if parts.scheme not in {"redis", "rediss"} or parts.query or not parts.hostname:
        return None
    before: list[tuple[str, ...]] = []
    if parts.password:
        user = [unquote(parts.username)] if parts.username else []
        before.append(("AUTH", *user, unquote(parts.password)))
    if database := parts.path.strip("/"):
        before.append(("SELECT", database))
    wanted = [*before, *commands]
    reader = hiredis.Reader(encoding="utf-8")
    plain = socket.create_connection((parts.hostname, parts.port or _PORT), timeout=_PATIENCE)
    with closing(_secured(plain, parts.hostname) if parts.scheme == "rediss" else plain) as peer:
        # The type stub of hiredis allows only tuples of one word.
        packed = [hiredis.pack_command(one) for one in wanted]  # type: ignore[arg-type]
        peer.sendall(b"".join(packed))
        replies: list[Any] = []
        while len(replies) < len(wanted):
            while (reply := reader.gets()) is False:
                piece = peer.recv(65_536)
                if not piece:
                    raise OSError("Redis has hung up.")
                reader.feed(piece)
            if isinstance(reply, hiredis.HiredisError):
                raise OSError(str(reply))
            replies.append(reply)
    return replies[len(before) :]


def _secured(plain: socket.socket, host: str) -> socket.socket:
    import ssl  # noqa: PLC0415 -- as above

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
