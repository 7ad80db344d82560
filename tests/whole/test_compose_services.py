"""The services of compose.yaml, each in a sandbox with what its container gives it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deciding import Desk
from services import missing
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.cli.composition.supervisor import Supervisor
from signoff.cli.config.settings import load_settings
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import What
from worker.sessions.stores import postgres

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())[
    "services"
]
HOME = "/srv/signoff"
USER = "10001"
ENDS = {What.COMPLETED, What.FAILED, What.IN_DOUBT}

Places = dict[str, str]
"""Texts of compose.yaml, and what stands for them here: addresses of the other services."""


def sandbox(service: dict[str, Any], volumes: Path) -> list[str]:
    """Return what to put before the command of a service.

    Its root cannot be written to, its user is that of the image, it has no capabilities, and its
    environment is the one of compose.yaml alone.

    Args:
        service: Of compose.yaml.
        volumes: Where the named volumes are.
    """
    program = shutil.which("bwrap")
    if program is None:
        missing("bubblewrap", "apt-get install bubblewrap")
    assert service["read_only"]
    assert service["tmpfs"] == ["/tmp"]
    command = [program, "--unshare-user", "--uid", USER, "--gid", USER, "--unshare-pid"]
    command += ["--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
    command += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/srv"]
    # This code and this Python, which an image has under /opt; they may be below /tmp here.
    for place in dict.fromkeys((str(ROOT), sys.prefix, sys.base_prefix)):
        command += ["--ro-bind", place, place]
    command += ["--dir", f"{HOME}/.signoff", "--chmod", "0700", f"{HOME}/.signoff"]
    for volume in service["volumes"]:
        source, target = volume.split(":")[:2]
        if source.startswith("."):
            command += ["--ro-bind", str(ROOT / source), target]
        else:
            (volumes / source).mkdir(exist_ok=True)
            command += ["--bind", str(volumes / source), target]
    return [*command, "--remount-ro", "/srv", "--chdir", HOME, "--clearenv"]


def started(service: dict[str, Any], places: Places, volumes: Path) -> list[str]:
    """Return the whole command line of a service."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": HOME,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: places.get(value, value) for name, value in service["environment"].items()},
    }
    line = sandbox(service, volumes)
    for name, value in environment.items():
        line += ["--setenv", name, value]
    return [*line, *(places.get(word, word) for word in service["command"])]


@asynccontextmanager
async def composed(folder: Path) -> AsyncIterator[tuple[Supervisor, Desk]]:
    """Start all of our services, beside a Redis and a PostgreSQL."""
    volumes = folder / "volumes"
    volumes.mkdir()
    with EmbeddedRedis(folder / "redis") as redis, postgres() as database:
        sessions = SERVICES["worker"]["environment"]["SIGNOFF_SESSIONS__URL"]
        places = {
            "redis://redis:6379/0": redis.url,
            sessions: database.url,
            "${GOOGLE_API_KEY:-}": "",
            "0.0.0.0": "127.0.0.1",
            "8080": "0",
            "8025": "0",
            "2525": "0",
        }
        settings = load_settings(ROOT / "examples" / "signoff.toml")
        ledger = Ledger(Store.open(redis.url))
        try:
            async with Supervisor() as supervisor:
                await supervisor.start("mailbox", started(SERVICES["mailbox"], places, volumes))
                await supervisor.ready()
                port = str(supervisor.children["mailbox"].said["port"])
                places |= {"mailbox": "127.0.0.1", "2525": port}
                for name in ("worker", "channels", "gateway"):
                    await supervisor.start(name, started(SERVICES[name], places, volumes))
                await supervisor.ready()
                yield supervisor, Desk(ledger, settings.everybody)
        finally:
            await ledger.close()


def test_a_sandbox_can_be_made() -> None:
    """Where the kernel does not let one be made, there is a reason, and CI has none."""
    service = SERVICES["worker"] | {"volumes": []}
    line = [
        *sandbox(service, ROOT),
        "sh",
        "-c",
        f"id -u; touch {HOME}/x /x; touch /tmp/x && echo t",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if "bwrap:" in done.stderr:
        missing("bubblewrap that may make namespaces", done.stderr.strip())
    assert done.stdout.split() == [USER, "t"]
    assert done.stderr.count("Read-only file system") == 2


@pytest.mark.soak
async def test_an_approval_goes_the_whole_way_through_the_services(tmp_path: Path) -> None:
    """Each starts on a root that it cannot write to, and does its work there."""
    test_a_sandbox_can_be_made()
    async with composed(tmp_path) as (supervisor, desk):
        run = await desk.submit(
            "finance", "Reimburse me 2500 for the conference", user="nora@example.com"
        )
        mails = tmp_path / "volumes" / "mail" / "mail"
        async with asyncio.timeout(60):
            async for event in follow(desk.ledger.store, subject=run.id):
                if event.what is What.DELIVERED:
                    break
            card = next(
                mail
                for _, mail in dev_mailbox.stored(mails)
                if "mara@example.com" in dev_mailbox.recipients_of(mail)
            )
            inbound = supervisor.children["gateway"].said["inbound"]
            await dev_mailbox.reply(
                card, "approve", "mara@example.com", host="127.0.0.1", port=inbound
            )
            async for event in follow(desk.ledger.store, subject=run.id):
                if event.what in ENDS:
                    break
        assert event.what is What.COMPLETED
        assert {one.name for one in (tmp_path / "volumes" / "state").iterdir()} >= {"ces.key"}
