"""A real Postfix for tests, with OpenDKIM as its filter and swaks as the mail program."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from ports import free_port
from services import missing

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="Postfix is started by root alone")

_PATIENCE: Final = 300.0
_SERVICES = """\
{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
lmtp unix - - n - - lmtp
retry unix - - n - - error
error unix - - n - - error
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""
_MAIN = """\
compatibility_level = 3.6
queue_directory = {run}/queue
data_directory = {run}/data
maillog_file = {run}/log
maillog_file_prefixes = {run}
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
myhostname = mx.signoff.example
mydestination = signoff.example
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
alias_maps =
alias_database =
smtpd_peername_lookup = no
recipient_delimiter = +
"""


@asynccontextmanager
async def postfix(settings: str) -> AsyncIterator[int]:
    """Run a Postfix for signoff.example with these additions to main.cf; yield its port."""
    for program in ("postfix", "swaks"):
        _find(program, package=program)
    port = free_port()
    run = _folder()
    for name in ("etc", "queue", "data"):
        (run / name).mkdir()
    shutil.chown(run / "data", "postfix")
    (run / "etc/main.cf").write_text(_MAIN.format(run=run) + settings)
    (run / "etc/master.cf").write_text(_SERVICES.format(port=f"127.0.0.1:{port}"))
    command = (_find("postfix", package="postfix"), "-c", str(run / "etc"), "start-fg")
    async with _running(command, port, run):
        yield port


@asynccontextmanager
async def opendkim(settings: str) -> AsyncIterator[str]:
    """Run an OpenDKIM with these settings; yield its address for ``smtpd_milters``."""
    port = free_port()
    run = _folder()
    main = f"Socket inet:{port}@127.0.0.1\nUserID root\nRequireSafeKeys no\nSyslog no\n"
    (run / "opendkim.conf").write_text(main + settings)
    command = (_find("opendkim", package="opendkim"), "-f", "-x", str(run / "opendkim.conf"))
    # It has no data to lose, and checks for SIGTERM only every five seconds.
    async with _running(command, port, run, stop=signal.SIGKILL):
        yield f"inet:127.0.0.1:{port}"


async def swaks(port: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Send a mail with swaks."""
    command = ["swaks", "--server", f"127.0.0.1:{port}", "--helo", "mail.example", *options]
    return await asyncio.to_thread(
        subprocess.run,
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _find(program: str, *, package: str) -> str:
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    return found or missing(program, f"apt-get install {package}")


def _folder() -> Path:
    # Postfix's daemons run as other users, which cannot enter pytest's folders.
    run = Path(tempfile.mkdtemp(prefix="signoff-postfix-"))
    run.chmod(0o755)
    return run


@asynccontextmanager
async def _running(
    command: tuple[str, ...], port: int, run: Path, *, stop: signal.Signals = signal.SIGTERM
) -> AsyncIterator[None]:
    """Run a server in a folder that is removed at the end; wait for its port."""
    output = run / "output"
    with output.open("wb") as written:
        process = await asyncio.create_subprocess_exec(*command, stdout=written, stderr=written)
    try:
        async with asyncio.timeout(_PATIENCE):
            while not await _answers(port):
                assert process.returncode is None, output.read_text()
                await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.send_signal(stop)
        await process.wait()
        shutil.rmtree(run, ignore_errors=True)


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
