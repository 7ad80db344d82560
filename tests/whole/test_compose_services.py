"""The services of compose.yaml, each in a sandbox with the rights of its container."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from composed import composed, line_of, secret_files
from deciding import Decider
from ports import free_port
from services import missing, program
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.cli.composition.supervisor import Supervisor
from signoff.cli.config.settings import load_settings
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import What
from worker.sessions.stores import postgres

ROOT = Path(__file__).parents[2]
COMPOSE = composed("mailbox")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
HOME = "/srv/signoff"
ENDS = {What.COMPLETED, What.FAILED, What.IN_DOUBT}
USERS: Final = {"redis": "999", "prometheus": "65534"}
"""The users of the images that are not Signoff's."""
OURS: Final = "10001"

_ETC: Final = ("group", "hosts", "ld.so.cache", "localtime", "nsswitch.conf", "passwd", "ssl")
_MADE: Final = {"dev", "etc", "proc", "run", "srv", "tmp"}


@dataclass(frozen=True)
class Host:
    """A stand-in for the machine of the services.

    Attributes:
        volumes: The folder of named volumes.
        secrets: The replacement of ./secrets.
        redis: The port of the service redis.
        ports: Texts of compose.yaml with an address or a port, and their replacements, because
            all services share one network here.
    """

    volumes: Path
    secrets: Path
    redis: int
    ports: Mapping[str, str]

    def sandbox(self, service: dict[str, Any], *, user: str = OURS, home: str = HOME) -> list[str]:
        """Return the command prefix that runs a service in its sandbox.

        The service has a read-only root, the user of its image, no capabilities, only the
        volumes and secrets of compose.yaml, and an empty environment.
        """
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            missing("bubblewrap", "apt-get install bubblewrap")
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        line = [bwrap, "--unshare-user", "--uid", user, "--gid", user, "--unshare-pid"]
        line += ["--die-with-parent", "--cap-drop", "ALL"]
        for place in sorted(Path("/").iterdir()):
            if place.is_symlink():
                line += ["--symlink", str(place.readlink()), str(place)]
            elif place.is_dir() and place.name not in _MADE:
                line += ["--ro-bind", str(place), str(place)]
        for place in (Path("/etc") / name for name in _ETC):
            line += ["--ro-bind-try", str(place), str(place)]
        line += ["--dev", "/dev", "--proc", "/proc"]
        line += ["--tmpfs", "/tmp"] if service.get("tmpfs") == ["/tmp"] else []
        # An image has this code and this Python under /opt; here they may be below /tmp.
        for path in dict.fromkeys((str(ROOT), sys.prefix, sys.base_prefix)):
            line += ["--ro-bind", path, path]
        line += ["--dir", home, "--chmod", "0700", home] if home.startswith("/srv") else []
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            if source.startswith("."):
                line += ["--ro-bind", str(ROOT / source), target]
            else:
                (self.volumes / source).mkdir(exist_ok=True)
                line += ["--bind", str(self.volumes / source), target]
        for target, file in secret_files(COMPOSE, service, self.secrets).items():
            line += ["--ro-bind", str(file), target]
        return [*line, "--remount-ro", "/", "--chdir", home, "--clearenv"]

    def line(
        self, service: dict[str, Any], *words: str, user: str = OURS, home: str = HOME
    ) -> list[str]:
        """Return the whole command line of a service, or one with other words instead."""
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": home,
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            # Every container has these ports to itself.
            "SIGNOFF_METRICS__WORKER_PORT": "0",
            "SIGNOFF_METRICS__CHANNELS_PORT": "0",
        }
        given = {name: one for name, one in service.get("environment", {}).items() if one}
        line = self.sandbox(service, user=user, home=home)
        for name, value in (environment | given).items():
            line += ["--setenv", name, self.ports.get(value, value)]
        return [*line, *(self.ports.get(word, word) for word in words or line_of(service))]


@pytest.fixture
def host(tmp_path: Path, made_secrets: Path) -> Host:
    """Return a host with secrets and a port for Redis."""
    folder, port = tmp_path / "secrets", free_port()
    shutil.copytree(made_secrets, folder)
    for file in folder.glob("redis-*.url"):
        file.write_text(file.read_text().replace("redis:6379", f"127.0.0.1:{port}"))
    (tmp_path / "volumes").mkdir()
    ports = {"0.0.0.0": "127.0.0.1", "8080": "0", "8025": "0", "2525": "0"}
    return Host(tmp_path / "volumes", folder, port, ports)


@contextmanager
def running(line: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a service until the block ends."""
    process = subprocess.Popen(line)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def ledger_server(host: Host) -> Iterator[str]:
    """Run the service redis, and yield the URL of the operator."""
    server, words = program("redis-server", "redis-server"), line_of(SERVICES["redis"])
    words = [server, *words[1:], "--port", str(host.redis), "--bind", "127.0.0.1"]
    url = (host.secrets / "redis-operator.url").read_text().strip()
    line = host.line(SERVICES["redis"], *words, user=USERS["redis"], home="/data")
    with running(line) as process:
        while process.poll() is None:
            with suppress(redis.ConnectionError), redis.Redis.from_url(url) as client:
                client.ping()
                break
        else:
            pytest.fail("redis has ended")
        yield url


def test_host_kernel_allows_a_sandbox(tmp_path: Path) -> None:
    """A kernel that does not allow sandboxes has a known reason; CI has none."""
    service = SERVICES["worker"] | {"volumes": [], "secrets": []}
    look = f"id -u; touch {HOME}/x /x /etc/x; touch /tmp/x && echo t"
    line = [*Host(tmp_path, tmp_path, 0, {}).sandbox(service), "/bin/sh", "-c", look]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if "bwrap:" in done.stderr:
        missing("bubblewrap that may make namespaces", done.stderr.strip())
    assert done.stdout.split() == [OURS, "t"]
    assert done.stderr.count("Read-only file system") == 3


def test_redis_accepts_only_the_users_of_the_processes(host: Host, tmp_path: Path) -> None:
    """It loads the ACL file, passes its health check, and refuses clients without a login."""
    test_host_kernel_allows_a_sandbox(tmp_path)
    with ledger_server(host) as url, redis.Redis.from_url(url) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(2 * 1024**3)}
        with (
            redis.Redis.from_url(f"redis://127.0.0.1:{host.redis}") as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()
        if shutil.which("redis-cli") is None:
            missing("redis-cli", "apt-get install redis-tools")
        how, check = SERVICES["redis"]["healthcheck"]["test"]
        assert how == "CMD-SHELL"
        words = ["/bin/sh", "-c", check]
        line = host.line(SERVICES["redis"], *words, user=USERS["redis"], home="/data")
        assert subprocess.run(line, check=False).returncode == 0


def test_prometheus_starts_with_the_mounted_rules(host: Host, tmp_path: Path) -> None:
    """It reads the configuration, the token and the alert rules at their mount points."""
    test_host_kernel_allows_a_sandbox(tmp_path)
    server, port = program("prometheus", "prometheus"), free_port()
    service = SERVICES["prometheus"]
    words = [server, *line_of(service), f"--web.listen-address=127.0.0.1:{port}"]
    line = host.line(service, *words, user=USERS["prometheus"], home="/prometheus")
    with running(line) as process:
        while process.poll() is None:
            with (
                suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/rules") as answer,
            ):
                found = json.load(answer)["data"]["groups"]
                break
            time.sleep(0.05)
        else:
            pytest.fail("prometheus has ended")
        assert [one["file"] for one in found] == ["/etc/prometheus/alerts.yml"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/status/config") as answer:
            assert (
                "credentials_file: /run/secrets/metrics-token" in json.load(answer)["data"]["yaml"]
            )


@asynccontextmanager
async def started(host: Host) -> AsyncIterator[tuple[Supervisor, Host, Decider]]:
    """Start all services, with a PostgreSQL."""
    with ledger_server(host) as url, postgres() as database:
        (host.secrets / "sessions.url").write_text(database.url)
        ledger = Ledger(Store.open(url))
        settings = load_settings(ROOT / "examples" / "signoff.toml")
        try:
            async with Supervisor() as supervisor:
                await supervisor.start("mailbox", host.line(SERVICES["mailbox"]))
                await supervisor.ready(within=300)
                port = str(supervisor.children["mailbox"].report["port"])
                ports = {**host.ports, "mailbox": "127.0.0.1", "2525": port}
                here = replace(host, ports=ports)
                for name in ("worker", "channels", "gateway"):
                    await supervisor.start(name, here.line(SERVICES[name]))
                await supervisor.ready(within=300)
                yield supervisor, here, Decider(ledger, settings.everybody)
        finally:
            await ledger.close()


@pytest.mark.soak
async def test_approval_completes_across_all_compose_services(host: Host, tmp_path: Path) -> None:
    """Each service works as its own Redis user on a read-only root."""
    test_host_kernel_allows_a_sandbox(tmp_path)
    async with started(host) as (supervisor, here, decider):
        operator = SERVICES["operator"]
        submit = ["signoff", "run", "finance", "Reimburse me 2500 for the conference"]
        submit += ["--user", "nora@example.com", "--json"]
        run = json.loads(await _output(here.line(operator, *submit)))["id"]
        mails = host.volumes / "mail" / "mail"
        async with asyncio.timeout(300):
            async for event in follow(decider.ledger.store, subject=run):
                if event.what is What.DELIVERED:
                    break
            card = next(
                mail
                for _, mail in dev_mailbox.stored(mails)
                if "mara@example.com" in dev_mailbox.recipients_of(mail)
            )
            inbound = supervisor.children["gateway"].report["inbound"]
            await dev_mailbox.reply(
                card, "approve", "mara@example.com", host="127.0.0.1", port=inbound
            )
            async for event in follow(decider.ledger.store, subject=run):
                if event.what in ENDS:
                    break
        assert event.what is What.COMPLETED
        assert "worker" in await _output(here.line(operator))
        # The operator and the channels share the archive's volume.
        await _output(here.line(operator, "signoff", "archive", "run", "--after", "0s"))
        assert list((host.volumes / "archive").iterdir())


async def _output(line: list[str]) -> str:
    """Run a command to its end, and return what it printed."""
    process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()
