"""The real processes: started, ready, working and stopped."""

from __future__ import annotations

import asyncio
import email
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import psutil
import pytest

from cli.conftest import SETTINGS
from ports import free_port
from services import plain_redis
from signoff.broker.doorbells.celery import make_celery
from signoff.broker.heartbeat import alive
from signoff.broker.ledger.follow import follow
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.submit import submit
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.supervisor import Child, Supervisor
from signoff.cli.config.settings import load_settings
from signoff.cli.demo.dev_mailbox import DevMailbox, reply
from signoff.cli.doctor.brokers import BrokerUnavailable, require_broker
from signoff.cli.doctor.diagnosis import diagnose
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState

AGENTS = Path(__file__).parents[2] / "examples" / "agents"
UP = f"""\
[agents]
folder = "{AGENTS}"
[gateway]
port = 0
[email.inbound]
port = 0
[[people]]
id = "mara"
email = "mara@example.com"
[default]
ask = ["mara"]
"""
ENDED = {What.COMPLETED, What.FAILED, What.IN_DOUBT}


@pytest.fixture
async def mailbox(tmp_path: Path) -> AsyncIterator[DevMailbox]:
    """Return the manager's mail server."""
    async with DevMailbox(tmp_path / "mail") as box:
        yield box


@pytest.fixture
def file(tmp_path: Path, own_redis: EmbeddedRedis, prefix: str, mailbox: DevMailbox) -> Path:
    """Return settings for all of these."""
    made = tmp_path / "signoff.toml"
    made.write_text(
        SETTINGS.format(agents=AGENTS, redis=own_redis.url, prefix=prefix, smtp=mailbox.port)
    )
    return made


@pytest.fixture
async def parts(file: Path) -> AsyncIterator[Parts]:
    """Return the parts of the processes, to observe their work from outside."""
    made = build(load_settings(file))
    yield made
    await made.ledger.close()


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    """Return a supervisor that stops the processes of a test."""
    async with Supervisor() as made:
        yield made


async def health(kind: str, file: Path) -> int:
    """Return the exit code of `signoff health`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "signoff.cli", "--config", str(file), "health", kind,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    return await process.wait()


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("channels", signal.SIGTERM),
        pytest.param("channels", signal.SIGINT, marks=pytest.mark.soak),
        ("worker", signal.SIGTERM),
    ],
)
async def test_consumer_reports_ready_and_stops_on_a_signal(
    kind: str, number: signal.Signals, file: Path, supervisor: Supervisor
) -> None:
    """Every line is an event, the exit code is 0, and the heartbeat was seen."""
    child = await supervisor.signoff(kind, "--config", str(file), kind)
    await supervisor.ready(within=300)
    assert child.report["kind"] == kind
    # Once per kind is enough, because each check is a process.
    assert number != signal.SIGTERM or await health(kind, file) == 0
    child.signal(number)
    await child.ended.wait()
    assert child.code == 0
    events = [json.loads(line)["event"] for line in child.tail]
    assert events.count("ready") == 1
    assert events[-1] == "stopped"


async def test_channels_report_a_redis_that_evicts_records(
    file: Path, supervisor: Supervisor, tmp_path: Path
) -> None:
    """Nobody may run `signoff doctor` before records are gone."""
    (tmp_path / "redis").mkdir()
    lasting = {"appendonly": "yes", "appendfsync": "always"}
    with plain_redis(tmp_path / "redis", maxmemory_policy="allkeys-lru", **lasting) as url:
        environment = {"SIGNOFF_REDIS__URL": url}
        child = await supervisor.signoff(
            "channels", "--config", str(file), "channels", env=environment
        )
        found: list[str] = []
        async with asyncio.timeout(300):
            while not found:
                await asyncio.sleep(0.05)
                events = [json.loads(line) for line in child.tail]
                found = [one["problem"] for one in events if one["event"] == "redis.evicts"]
        (problem,) = found
        assert "Redis evicts keys" in problem
        await supervisor.stop("channels")


LINGERING = """
import asyncio, structlog
from signoff.broker.timers.leftovers import Leftovers
from signoff.cli.entry import main

async def run_forever(self):
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.1)
        structlog.get_logger().info("background.ended", redis=bool(await self._ledger.now()))

Leftovers.run_forever = run_forever
main()
"""


async def test_stopped_process_has_ended_its_background_work(
    file: Path, supervisor: Supervisor
) -> None:
    """Work in the background ends while it can still reach Redis, and "stopped" comes last."""
    command = [sys.executable, "-c", LINGERING, "--config", str(file), "channels"]
    child = await supervisor.start("channels", command)
    await supervisor.ready(within=300)
    child.signal(signal.SIGTERM)
    await child.ended.wait()
    events = [json.loads(line) for line in child.tail]
    assert [event["event"] for event in events[-2:]] == ["background.ended", "stopped"]
    assert events[-2]["redis"] is True
    assert child.code == 0


async def test_gateway_serves_and_stops_on_a_signal(
    file: Path, supervisor: Supervisor, parts: Parts
) -> None:
    """It answers HTTP and SMTP on the printed ports, and stops on a signal."""
    child = await supervisor.signoff("gateway", "--config", str(file), "gateway")
    await supervisor.ready(within=300)
    for port, hello in (
        (child.report["port"], b"HTTP/1.1 200"),
        (child.report["inbound"], b"220 "),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).startswith(hello)
        if hello.startswith(b"HTTP"):
            head = email.message_from_bytes(await reader.readuntil(b"\r\n\r\n"))
            said = parsedate_to_datetime(head["date"])
            assert abs(await parts.ledger.now() - said) < timedelta(minutes=1)
        writer.close()
    assert await health("gateway", file) == 0
    assert await health("worker", file) == 1
    assert set(await alive(parts.ledger)) == {"gateway"}
    child.signal(signal.SIGTERM)
    await child.ended.wait()
    assert child.code == 0


@pytest.mark.parametrize(
    "kind",
    ["channels", *(pytest.param(one, marks=pytest.mark.soak) for one in ("gateway", "worker"))],
)
async def test_process_without_redis_exits_with_one_line(
    kind: str, file: Path, supervisor: Supervisor
) -> None:
    """Exit code 1, the problem and a hint; the service manager restarts it."""
    environment = {"SIGNOFF_REDIS__URL": f"redis://127.0.0.1:{free_port()}/0"}
    child = await supervisor.signoff(kind, "--config", str(file), kind, env=environment)
    await child.ended.wait()
    assert child.code == 1
    (line,) = child.tail
    assert "Redis cannot be reached" in line


@pytest.mark.parametrize("kind", ["gateway", pytest.param("channels", marks=pytest.mark.soak)])
async def test_with_faulty_settings_a_process_does_not_start(
    kind: str, file: Path, supervisor: Supervisor
) -> None:
    """Contradictory settings count too: exit code 2, with one error per line.

    A worker asks nobody, and cannot check whether people can be asked.
    """
    _write(file, _read(file).replace('ask = ["cleo"]', 'ask = ["zoe", "kim"]'))
    child = await supervisor.signoff(kind, "--config", str(file), kind)
    await child.ended.wait()
    assert child.code == 2
    assert len(child.tail) == 2


@pytest.mark.parametrize(
    "variable",
    [
        "SIGNOFF_GATEWAY__PORT",
        pytest.param("SIGNOFF_EMAIL__INBOUND__PORT", marks=pytest.mark.soak),
    ],
)
async def test_gateway_with_a_taken_port_exits_with_one_line(
    variable: str, file: Path, mailbox: DevMailbox, supervisor: Supervisor
) -> None:
    """The error names the port, for HTTP and for mail."""
    environment = {variable: str(mailbox.port)}
    child = await supervisor.signoff("gateway", "--config", str(file), "gateway", env=environment)
    await child.ended.wait()
    assert child.code == 2
    assert f"cannot listen on 127.0.0.1:{mailbox.port}" in child.tail[-1]
    assert not any("Traceback" in line for line in child.tail)


@pytest.mark.soak
async def test_a_worker_for_agents_that_are_not_there_does_not_start(
    file: Path, supervisor: Supervisor
) -> None:
    """The message names the existing agents."""
    child = await supervisor.signoff(
        "worker", "--config", str(file), "worker", "--app", "finance", "--app", "finanse"
    )
    await child.ended.wait()
    assert child.code == 1
    assert "finance, finance_strict, refunds, time_off" in child.tail[-1]


@pytest.mark.soak
async def test_run_passes_through_separate_processes(
    file: Path, supervisor: Supervisor, parts: Parts, mailbox: DevMailbox, tmp_path: Path
) -> None:
    """Agent, pause, mail, reply and resume each run in a separate process."""
    journal = tmp_path / "journal.jsonl"
    environment = {"SIGNOFF_EXAMPLE_JOURNAL": str(journal), "GOOGLE_API_KEY": ""}
    for kind in ("worker", "channels", "gateway"):
        await supervisor.signoff(kind, "--config", str(file), kind, env=environment)
    await supervisor.ready(within=300)
    inbound = supervisor.children["gateway"].report["inbound"]
    run = await submit(parts.ledger, "finance", "Reimburse me $2500 for a desk", user="riley")
    card = await mailbox.wait_for(lambda one: one["To"] is not None, within=300)
    sender = "Mara Lind <mara@example.com>"
    if "mara@" not in str(card["To"]):
        sender = "Cleo Park <cleo@example.com>"
    await reply(card, "approve", sender, host="127.0.0.1", port=inbound)
    async with asyncio.timeout(300):
        async for event in follow(parts.ledger.store, subject=run.id):
            if event.what in ENDED:
                break
    after = await parts.ledger.run(run.id)
    assert after.state is RunState.COMPLETED
    assert len(await asyncio.to_thread(journal.read_text)) > 0
    history = [event.what for event in await parts.ledger.history(run.id)]
    assert history.count(What.STARTED) == history.count(What.FINISHED) == 1


async def test_up_starts_and_stops_everything(tmp_path: Path) -> None:
    """Without settings it starts Redis and a mailbox, and one signal stops everything."""
    settings = tmp_path / "signoff.toml"
    _write(settings, UP)
    async with _up(settings) as (child, processes):
        assert len(processes) == 5
        assert {"redis-server", "valkey-server"} & {one.name() for one in processes}
        assert any("mailbox" in one.cmdline() for one in processes)
        # Other users of the machine cannot read anything.
        state = tmp_path / ".signoff"
        found = load_settings(settings)
        async with httpx.AsyncClient(base_url=found.inbox.url, timeout=60) as browser:
            first = await browser.get("/")
            assert (first.status_code, first.headers["location"]) == (303, "/inbox/")
            assert (await browser.get("/api/v1/runs")).status_code == 401
        assert {"redis", "ces.key", "up.lock", "up.json", "page.key"} <= {
            one.name for one in state.iterdir()
        }
        assert [one for one in (state, *state.rglob("*")) if one.stat().st_mode & 0o077] == []
        child.signal(signal.SIGINT)
        await child.ended.wait()
        assert child.code == 0
        _, left = await asyncio.to_thread(psutil.wait_procs, processes, timeout=300)
        assert not left


@pytest.mark.soak
def test_failed_up_prints_one_message(tmp_path: Path) -> None:
    """The failed process prints the reason, `up` names it, and no more output follows."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _write(tmp_path / "signoff.toml", UP.replace("port = 0", f"port = {port}", 1))
        done = _failed_up(tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "never retrieved" not in done.stderr
    assert f"gateway  │ signoff: gateway: cannot listen on 127.0.0.1:{port}" in done.stderr
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.startswith("signoff: gateway ended with code 2, so everything was stopped.")


def test_up_in_a_folder_without_settings_and_agents_writes_nothing(tmp_path: Path) -> None:
    """Somebody who is in the wrong folder reads that, and nothing else."""
    done = _failed_up(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"signoff: There is no signoff.toml in {tmp_path}")
    assert "`signoff init`" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_up_without_an_agent_starts_nothing(tmp_path: Path) -> None:
    """There would be nothing to work on."""
    _write(tmp_path / "signoff.toml", "")
    (tmp_path / "agents").mkdir()
    done = _failed_up(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"signoff: There is no agent in {tmp_path / 'agents'}")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / ".signoff").exists()


@pytest.mark.soak
async def test_up_runs_once_per_folder_and_a_kill_ends_its_processes(
    file: Path, supervisor: Supervisor
) -> None:
    """A second one would break the first one's Redis; `kill -9` also ends its processes."""
    async with _up(file) as (child, processes):
        second = await supervisor.signoff("second", "--config", str(file), "up")
        await second.ended.wait()
        assert second.code == 2
        assert "runs already" in second.tail[-1]
        os.kill(child.pid, signal.SIGKILL)
        _, left = await asyncio.to_thread(psutil.wait_procs, processes, timeout=300)
        assert [one for one in left if one.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.soak
async def test_up_stops_everything_when_a_process_dies(tmp_path: Path) -> None:
    """Until then other commands find its services; it names the dead process and exits with 1."""
    settings = tmp_path / "signoff.toml"
    _write(settings, UP)
    async with _up(settings) as (child, processes):
        assert await health("worker", settings) == 0
        diagnosis = await diagnose(load_settings(settings))
        assert [one.about for one in diagnosis if one.level == "broken"] == []
        victim = next(one for one in processes if "channels" in one.cmdline())
        victim.kill()
        await child.ended.wait()
        assert child.code == 1
        assert any("channels was ended by signal 9" in line for line in child.tail)
        _, left = await asyncio.to_thread(psutil.wait_procs, processes, timeout=300)
        assert not left


def test_unavailable_broker_error_hides_the_password() -> None:
    """After the last attempt, one sentence is printed."""
    with pytest.raises(BrokerUnavailable, match="cannot be reached") as caught:
        require_broker(make_celery(f"amqp://me:hunter2@127.0.0.1:{free_port()}//"), tries=1)
    assert "hunter2" not in str(caught.value)


@asynccontextmanager
async def _up(file: Path) -> AsyncIterator[tuple[Child, list[psutil.Process]]]:
    """Run `signoff up`; when everything is ready, yield it and its processes."""
    everything = asyncio.Event()

    def listen(_: str, line: str) -> None:
        if "Everything is ready" in line:
            everything.set()

    async with Supervisor(echo=listen) as supervisor:
        child = await supervisor.signoff(
            "up", "--config", str(file), "up", "--redis-port", str(free_port())
        )
        async with asyncio.timeout(300):
            await everything.wait()
        yield child, psutil.Process(child.pid).children(recursive=True)


def _failed_up(folder: Path) -> subprocess.CompletedProcess[str]:
    """Return what `signoff up` in this folder has printed when it has ended."""
    return subprocess.run(
        [sys.executable, "-m", "signoff.cli", "up"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _read(file: Path) -> str:
    return file.read_text()


def _write(file: Path, text: str) -> None:
    file.write_text(text)
