"""Postfix in front, as the documentation sets it up, with swaks as the mail program."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services import missing
from signoff.broker.embedded import free_port
from signoff.channels.email.inbound import MailServer
from signoff.channels.email.settings import EmailSettings, InboundSettings
from signoff.core.approval import State

MAILBOX = "approvals@signoff.example"
SERVICES = """\
{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
lmtp unix - - n - - lmtp
retry unix - - n - - error
error unix - - n - - error
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""
MAIN = """\
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
transport_maps = inline:{{ {{ approvals@signoff.example = lmtp:inet:127.0.0.1:{lmtp} }} }}
local_recipient_maps = $alias_maps, inline:{{ approvals=signoff }}
"""


@asynccontextmanager
async def postfix(lmtp: int) -> AsyncIterator[int]:
    """Run a Postfix of our own in a folder of its own; yield its port."""
    port = free_port()
    run = _folder(port, lmtp)
    process = await asyncio.create_subprocess_exec(
        *("/usr/sbin/postfix", "-c", str(run / "etc"), "start-fg"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(20):
            while not await _answers(port):
                assert process.returncode is None, (run / "log").read_text()
                await asyncio.sleep(0.05)
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        shutil.rmtree(run, ignore_errors=True)


def _folder(port: int, lmtp: int) -> Path:
    # Its daemons run as other users, and pytest's folders are closed to them.
    run = Path(tempfile.mkdtemp(prefix="signoff-postfix-"))
    run.chmod(0o755)
    for name in ("etc", "queue", "data"):
        (run / name).mkdir()
    shutil.chown(run / "data", "postfix")
    (run / "etc/main.cf").write_text(MAIN.format(run=run, lmtp=lmtp))
    (run / "etc/master.cf").write_text(SERVICES.format(port=f"127.0.0.1:{port}"))
    return run


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def swaks(port: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Send a mail with swaks."""
    command = ["swaks", "--server", f"127.0.0.1:{port}", "--helo", "mail.example", *options]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="Postfix is started by root alone")
async def test_an_answer_comes_through_postfix(channels):
    """A reply by SMTP reaches the gateway by LMTP and decides; an unknown token is refused."""
    for program in ("postfix", "swaks"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            missing(program, f"apt-get install {program}")
    approval, token = await channels.ask()
    inbound = InboundSettings(protocol="lmtp", port=0)
    server = MailServer(EmailSettings(mailbox=MAILBOX, inbound=inbound), channels.ledger)
    await server.start()
    try:
        async with postfix(server.port) as port:
            mail = ("--from", "mara@example.com", "--header", "Subject: Re: Approval needed")
            body = (
                "--body",
                "approve: fine by me",
                "--h-Message-Id",
                f"<{secrets.token_hex(4)}@x>",
            )
            sent = await swaks(port, "--to", f"approvals+{token}@signoff.example", *mail, *body)
            assert sent.returncode == 0, sent.stdout
            # Postfix says that it has the mail before it hands it on.
            for _ in range(400):
                if await channels.intake.drain():
                    break
                await asyncio.sleep(0.05)
            other = await swaks(port, "--to", "somebody@signoff.example", *mail)
            assert "550" in other.stdout
    finally:
        await server.stop()
    after = await channels.ledger.approval(approval.id)
    assert after.state is State.APPROVED
    assert after.decision.reason == "fine by me"
