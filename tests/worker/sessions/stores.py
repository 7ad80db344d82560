"""ADK's session stores, started for the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ports import free_port
from services import missing


class Postgres:
    """A PostgreSQL cluster in a separate folder, on a separate loopback port.

    PostgreSQL does not run as root; then it runs as the user that its package has created.

    Args:
        folder: The folder of its data; it must not exist yet.
        programs: The folder of initdb and pg_ctl.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._programs = programs
        self._run("initdb", "--auth=trust", "--username=signoff", "--encoding=UTF8", "--no-sync")

    @property
    def url(self) -> str:
        """The URL of its database in ADK's form."""
        return f"postgresql+asyncpg://signoff@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
            "-c fsync=off"
        )
        self._run("pg_ctl", "start", "--wait", f"--options={options}", f"--log={self.folder}/log")

    def stop(self) -> None:
        """Kill it as a power cut would."""
        self._run("pg_ctl", "stop", "--wait", "--mode=immediate")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), f"--pgdata={self.folder}", *arguments]
        if os.geteuid() == 0:
            command = [
                "setpriv",
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                *command,
            ]
        # Into a file: the server inherits the output, and would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, cwd="/", check=False
            )
            if done.returncode:
                output.seek(0)
                raise RuntimeError(f"{program}: {output.read().decode(errors='replace')[-1000:]}")


def _programs() -> Path:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda one: int(one.parts[-3])
    )
    if found:
        return found[-1].parent
    on_path = shutil.which("pg_ctl")
    if on_path is None:
        missing("PostgreSQL", "apt-get install postgresql")
    return Path(on_path).parent


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Start a PostgreSQL of one's own on loopback, and yield it."""
    if find_spec("asyncpg") is None:
        missing("asyncpg", "pip install 'signoff[postgres]'")
    programs = _programs()
    # Not under pytest's own folder, which other users cannot enter.
    with tempfile.TemporaryDirectory(prefix="signoff-postgres-") as name:
        home = Path(name)
        if os.geteuid() == 0:
            shutil.chown(home, "postgres", "postgres")
        server = Postgres(home / "data", programs)
        server.start()
        try:
            yield server
        finally:
            server.stop()
