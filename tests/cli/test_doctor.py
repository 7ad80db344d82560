"""The doctor: its findings on a healthy system, and for each problem."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from aiosmtpd.smtp import SMTP, AuthResult

from builders import paused
from cli.conftest import SETTINGS, Invoke
from ports import free_port
from signoff.broker.heartbeat import beat
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring.gauges import KnownNames, measure
from signoff.cli.composition.parts import build
from signoff.cli.composition.process import state_of
from signoff.cli.composition.receipts import private_key
from signoff.cli.composition.reload import Reloader
from signoff.cli.config.settings import Settings, load_settings
from signoff.cli.demo.dev_mailbox import DevMailbox
from signoff.cli.doctor import diagnosis
from signoff.cli.doctor.diagnosis import diagnose
from signoff.cli.doctor.finding import Finding
from signoff.cli.doctor.ledger import backlog
from signoff.cli.doctor.ledger import clock as clock_findings
from signoff.core.policies.policy import Fallback
from signoff.testing import VirtualClock
from zone import Zone, serving

Serve = Callable[[StreamReader, StreamWriter], Awaitable[None]]

WRAPPED = """
from google.adk.agents import Agent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool

def pay(amount: float) -> dict:
    return {}

clerk = Agent(name="clerk", model="m", tools=[FunctionTool(pay, require_confirmation=True)])
root_agent = Agent(name="desk", model="m", tools=[AgentTool(clerk, include_plugins=False)])
"""

GATED = """
from google.adk.agents import Agent
from google.adk.tools.agent_tool import AgentTool


class Gated(AgentTool):
    async def check_require_confirmation(self, args, tool_context):
        return True


clerk = Agent(name="clerk", model="m")
root_agent = Agent(name="desk", model="m", tools=[Gated(clerk)])
"""

EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"
ASKS_FOR_CREDENTIAL = Path(__file__).parents[1] / "worker" / "agents" / "credential"


async def look(file: Path) -> dict[str, list[Finding]]:
    """Return the findings by subject."""
    found: dict[str, list[Finding]] = {}
    for finding in await diagnose(load_settings(file)):
        found.setdefault(finding.about, []).append(finding)
    return found


@pytest.fixture
async def mail() -> AsyncIterator[DevMailbox]:
    """Return a working mail server."""
    async with DevMailbox(Path("mail")) as box:
        yield box


@pytest.fixture
def file(tmp_path: Path, redis_url: str, prefix: str, mail: DevMailbox) -> Path:
    """Return settings without agents, because loading agents is slow."""
    (tmp_path / "agents").mkdir()
    text = SETTINGS.format(agents="agents", redis=redis_url, prefix=prefix, smtp=mail.port)
    made = tmp_path / "signoff.toml"
    made.write_text(text)
    return made


async def test_doctor_reports_different_signing_keys_on_two_machines(
    file: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If each machine has its own signing key, this is a finding; a shared key resolves it."""
    for machine in ("blue", "green"):
        await beat(ledger, "worker", f"{machine}/1")
    found = await look(file)
    assert "workers are alive on blue, green, and [ces] key is not set" in found["code"][0].text
    monkeypatch.setenv("SIGNOFF_CES__KEY", "k" * 32)
    assert "code" not in await look(file)


async def test_doctor_reports_keys_of_receipts_that_workers_do_not_have(
    file: Path, ledger: Ledger, tmp_path: Path
) -> None:
    """Two installations in one ledger sign with different keys, so approved calls would wait."""
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(file, other)
    here, there = load_settings(file), load_settings(other / "signoff.toml")
    for made in (here, there):
        private_key(made)

    async def run(settings: Settings, kind: str, name: str) -> None:
        """Send the heartbeat of a process with these settings."""
        own = build(settings, decides=kind != "worker")
        await beat(ledger, kind, name, state_of(own, Reloader(settings, kind)))
        await own.ledger.close()

    await run(here, "gateway", "blue/1")
    await run(here, "worker", "blue/2")
    await beat(ledger, "worker", "of-the-last-release/1")
    assert "receipts" not in await look(file)
    (found,) = (await look(other / "signoff.toml"))["receipts"]
    assert "the command line here" in found.text
    await run(there, "channels", "green/1")
    (found,) = (await look(file))["receipts"]
    assert found.level == "broken"
    assert "worker blue/2" in found.text
    assert "channels green/1" in found.text
    assert private_key(there).kid in found.text
    assert "of-the-last-release" not in found.text


async def test_a_healthy_set_up_is_found_well(file: Path, ledger: Ledger) -> None:
    """Processes and waiting work are counted, and the required proof of answers is shown."""
    for kind in ("worker", "channels", "gateway"):
        await beat(ledger, kind, f"host/{kind}")
    await paused(ledger)
    await ledger.commit_all([])
    found = await look(file)
    for about in ("settings", "redis", "broker", "smtp", "email", "worker", "channels", "gateway"):
        assert [one.level for one in found[about]] == ["good"], about
    assert "1 alive: host/worker" in found["worker"][0].text
    assert "token+from" in found["email"][0].text
    assert "approvals@signoff.localhost" in found["email proof"][1].text
    assert "nothing proves a From here" in found["email proof"][0].text
    assert "dns" not in found


PROOF = """\
[email]
mailbox = "approvals@signoff.example"
sender = "approvals@signoff.example"
[email.authentication]
nameservers = ["NAMESERVER"]
timeout = 60
[email.smtp]"""


@pytest.fixture
async def zone() -> AsyncIterator[Zone]:
    """Return a DNS server with the company's domain."""
    async with serving(Zone()) as running:
        running.records["_dmarc.example.com"] = ["v=DMARC1; p=reject"]
        yield running


def change(file: Path, old: str, new: str) -> None:
    """Change the settings."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


async def test_doctor_reports_the_required_proof_of_answers(file: Path, zone: Zone) -> None:
    """A real domain requires the strictest proof; its sources are named and the DNS is checked."""
    coffee = '[[policies]]\nname = "coffee"\nask = ["mara"]\nemail = "token"\n'
    change(file, "[email.smtp]", coffee + PROOF.replace("NAMESERVER", zone.server))
    found = await look(file)
    assert "token+from+dmarc" in found["email"][0].text
    assert "These policies require less: coffee" in found["email"][0].text
    assert "DKIM signatures verified here" in found["email proof"][0].text
    assert found["dns"][0].level == "good"
    change(file, "timeout = 60", "timeout = 0.3")
    zone.silent.add("_dmarc.example.com")
    (dns,) = (await look(file))["dns"]
    assert dns.level == "warning"
    assert "does not answer about example.com" in dns.text
    change(file, "timeout = 0.3", 'authserv_id = "mx.example.com"\ndkim = false')
    found = await look(file)
    assert "token+from+dmarc" in found["email"][0].text
    assert "Authentication-Results of mx.example.com" in found["email proof"][0].text
    assert "dns" not in found


async def test_doctor_warns_about_missing_processes(file: Path) -> None:
    """Each is a warning, because it may be stopped on purpose."""
    found = await look(file)
    for kind in ("worker", "channels", "gateway"):
        assert found[kind][0].level == "warning"
        assert f"`signoff {kind}`" in found[kind][0].text


async def test_doctor_reports_a_clock_of_redis_that_is_wrong(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """A difference to this machine is a finding, and so is a clock that was set back."""
    now = clock.now()
    assert [one async for one in clock_findings(still_ledger, now)] == []
    (ahead,) = [one async for one in clock_findings(still_ledger, now - timedelta(hours=2))]
    assert "its clock is 2h ahead of the clock of this machine" in ahead.text
    (behind,) = [one async for one in clock_findings(still_ledger, now + timedelta(hours=2))]
    assert "its clock is 2h behind the clock of this machine" in behind.text
    # The stream has ids of the real clock, which is later than the virtual one.
    await paused(still_ledger)
    (back,) = [one async for one in clock_findings(still_ledger, now)]
    assert ("set back" in back.text, back.level) == (True, "warning")


async def test_work_that_waits_is_counted_by_stage(file: Path, ledger: Ledger) -> None:
    """An operator finds the slow stage."""
    from builders import people
    from deciding import Decider

    decider = Decider(ledger, people())
    for _ in range(3):
        await decider.submit("finance", "hello", user="riley")
    assert "run.finance 3" in (await look(file))["backlog"][0].text


async def test_work_that_no_process_takes_is_a_warning(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """A run of an agent that no worker has, waits although workers are alive."""

    async def found() -> Finding:
        return backlog((await measure(still_ledger, KnownNames())).stages)

    assert (await found()).text == "no stage has work waiting"
    await still_ledger.commit(Change().send_raw("run.payroll", "r1", {}))
    await still_ledger.commit(Change().send_raw("route", "later", {}, after=86_400))
    clock.advance(timedelta(minutes=4))
    assert (await found()).level == "good"
    clock.advance(timedelta(minutes=4))
    late = await found()
    assert (late.level, "run.payroll for 8m." in late.text) == ("warning", True)


async def test_doctor_reports_dead_letters_and_unreachable_approvers(
    file: Path, ledger: Ledger
) -> None:
    """Dead letters, unreadable mail, and approvals that reach nobody."""
    await ledger.commit(Change().put_dead("route", "x", {}))
    for mail in ("abc", "def"):
        entry = ("quarantine", mail, 0)
        await ledger.commit(Change().put_raw(f"quarantine:{mail}", "why", add=[entry]))
    _, (approval,) = await paused(ledger)
    was = await ledger.approval(approval.id)
    nobody, _ = was.ask(Fallback().terms({}), (), now=was.opened_at)
    await ledger.commit(Change().put(nobody, was=was))
    found = await look(file)
    assert "1 given up" in found["dead letters"][0].text
    assert "2 could not be read" in found["quarantined mails"][0].text
    assert approval.id in found["approvals"][0].text


async def test_a_redis_that_is_away_is_broken_and_the_rest_is_still_looked_at(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One problem does not hide the others."""
    monkeypatch.setenv("SIGNOFF_REDIS__URL", f"redis://:hunter2@127.0.0.1:{free_port()}/0")
    found = await look(file)
    assert found["redis"][0].level == "broken"
    assert "signoff doctor" not in found["redis"][0].text
    assert found["broker"][0].level == "broken"
    assert found["smtp"][0].level == "good"
    assert "hunter2" not in str(found)


async def _silent(reader: StreamReader, writer: StreamWriter) -> None:
    """Read until the client closes the connection."""
    await reader.read()
    writer.close()


async def _http(reader: StreamReader, writer: StreamWriter) -> None:
    """Answer after an empty line, as web servers do."""
    while (line := await reader.readline()) and line != b"\r\n":
        pass
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" if line else b"")
    writer.close()


async def _plain(reader: StreamReader, writer: StreamWriter) -> None:
    """Answer a command as Redis does, and wait for the rest of a TLS handshake."""
    if (await reader.read(4096)).startswith(b"GET"):
        writer.write(b"-ERR wrong number of arguments for 'get' command\r\n")
    else:
        await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("scheme", "serve", "named"),
    [
        ("redis", _http, "is an HTTP server, no Redis"),
        ("redis", _silent, "takes connections, but does not answer"),
        ("rediss", _plain, "is a Redis that does not use TLS"),
    ],
)
async def test_a_broker_in_a_redis_that_cannot_be_used_is_not_waited_for(
    scheme: str, serve: Serve, named: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong is said once, and Celery does not try the same URL for another minute."""
    begun: list[str] = []
    monkeypatch.setattr(diagnosis, "require_broker", lambda *_, **__: begun.append(scheme))
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        timeouts = "socket_connect_timeout=0.1&socket_timeout=0.1"
        monkeypatch.setenv("SIGNOFF_REDIS__URL", f"{scheme}://127.0.0.1:{port}/0?{timeouts}")
        found = await look(file)
    assert not begun
    assert [named in one.text for one in found["redis"]] == [True]
    assert [one.level for one in found["broker"]] == ["broken"]
    assert "[redis] url" in found["broker"][0].text
    assert found["smtp"][0].level == "good"


async def test_another_broker_that_never_answers_is_broken(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for as long as other servers are, which is shorter than a worker waits."""
    monkeypatch.setattr("signoff.cli.doctor.mail.PATIENCE", 0.1)
    async with await asyncio.start_server(_silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("SIGNOFF_BROKER__URL", f"redis://127.0.0.1:{port}/0")
        found = await look(file)
    assert found["redis"][0].level == "good"
    assert "[broker] url" in found["broker"][0].text


async def test_another_broker_is_checked_if_redis_is_away(
    file: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker of its own does not depend on the ledger's Redis."""
    monkeypatch.setenv("SIGNOFF_REDIS__URL", f"redis://127.0.0.1:{free_port()}/0")
    monkeypatch.setenv("SIGNOFF_BROKER__URL", redis_url)
    found = await look(file)
    assert found["redis"][0].level == "broken"
    assert found["broker"][0].level == "good"


async def test_a_mail_server_that_is_away_is_broken(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An explicit server is an error; the default one is a warning that says so."""
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PORT", str(free_port()))
    (finding,) = (await look(file))["smtp"]
    assert finding.level == "broken"
    assert "Approvals wait" in finding.text


async def test_a_mail_server_that_is_not_set_is_a_warning(redis_url: str) -> None:
    """The default is not a real mail server."""
    settings = Settings.model_validate({"redis": {"url": redis_url}})
    smtp = [one for one in await diagnose(settings) if one.about == "smtp"]
    assert [one.level for one in smtp] == ["warning"]
    assert "is not set" in smtp[0].text


@asynccontextmanager
async def login_server(password: str) -> AsyncIterator[int]:
    """Run a mail server that requires a login, and yield its port."""

    def authenticate(*arguments: object) -> AuthResult:
        data = arguments[-1]
        success = getattr(data, "password", b"") == password.encode()
        return AuthResult(success=success, handled=False)

    class Accepting:
        """Accepts every mail, though no mail is sent."""

    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(Accepting(), authenticator=authenticate, auth_require_tls=False), "127.0.0.1"
    )
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(("password", "level"), [("right", "good"), ("wrong", "broken")])
async def test_the_login_is_tried(
    file: Path, monkeypatch: pytest.MonkeyPatch, password: str, level: str
) -> None:
    """A wrong password is found before an approval waits for it, and never shown."""
    async with login_server("right") as port:
        monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PORT", str(port))
        monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__USERNAME", "signoff")
        monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PASSWORD", password)
        (finding,) = (await look(file))["smtp"]
    assert finding.level == level
    assert "password" in finding.text or "login" in finding.text
    assert "wrong" not in finding.text


def test_doctor_reports_only_settings_errors_if_there_are_any(
    invoke: Invoke, tmp_path: Path
) -> None:
    """Without settings, nothing else can be checked; exit code 1."""
    (tmp_path / "signoff.toml").write_text("[redis]\nur = 1\n")
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "Did you mean 'url'?" in result.output
    data = json.loads(invoke("doctor", "--json").output)
    assert data["ok"] is False
    assert [finding["about"] for finding in data["findings"]] == ["settings"]


@pytest.mark.parametrize(
    ("url", "level", "text"),
    [
        ("", "good", "in the ledger's Redis"),
        ("sqlite:///.signoff/sessions.db", "good", "can be used"),
        ("sqlite:///signoff.toml", "broken", "file is not a database"),
        ("sqlite:///signoff.toml/sessions.db", "broken", "no file can be created in"),
        ("redis://:hunter2@127.0.0.1:{port}/0", "broken", "***@127.0.0.1"),
        ("postgresql+asyncpg://me:hunter2@127.0.0.1:{port}/x", "broken", "SIGNOFF_SESSIONS__URL"),
        ("nosuch+driver://here", "warning", "ADK opens it when a worker starts"),
    ],
)
async def test_the_store_of_the_sessions_is_opened(
    file: Path, url: str, level: str, text: str
) -> None:
    """A store that a worker could not open is an error, shown without its password."""
    change(
        file, "[email.smtp]", f'[sessions]\nurl = "{url.format(port=free_port())}"\n[email.smtp]'
    )
    (found,) = (await look(file))["sessions"]
    assert (found.level, text in found.text) == (level, True), found
    assert "hunter2" not in found.text


def test_agents_that_do_not_load_are_broken(
    tmp_path: Path, redis_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every agent is loaded as a worker loads it, and its own error is shown."""
    agents = tmp_path / "agents"
    (agents / "bad").mkdir(parents=True)
    (agents / "bad" / "__init__.py").write_text("from . import agent\n")
    (agents / "bad" / "agent.py").write_text("import no_such_module\n")
    (agents / "finance").symlink_to(EXAMPLES / "finance")
    (agents / "credential").symlink_to(ASKS_FOR_CREDENTIAL)
    own = (("wrapped", WRAPPED), ("gated", GATED), ("ends", "print('hello')\nexit(3)\n"))
    for name, code in own:
        (agents / name).mkdir()
        (agents / name / "__init__.py").write_text("from . import agent\n")
        (agents / name / "agent.py").write_text(code)
    file = tmp_path / "signoff.toml"
    file.write_text(SETTINGS.format(agents=agents, redis=redis_url, prefix=prefix, smtp=9))
    monkeypatch.setenv("GOOGLE_API_KEY", "")
    done = subprocess.run(
        [sys.executable, "-m", "signoff.cli", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 1, done.stderr
    assert "hello" in done.stderr
    findings = {
        finding["text"].split()[0]: finding
        for finding in json.loads(done.stdout)["findings"]
        if finding["about"] == "agents"
    }
    assert findings["finance"]["level"] == "good"
    assert findings["bad"]["level"] == "broken"
    assert "no_such_module" in findings["bad"]["text"]
    assert "ends/agent.py:2: SystemExit: 3" in findings["ends"]["text"]
    assert findings["wrapped"]["level"] == "broken"
    assert "desk > clerk > pay: it asks for a confirmation inside" in findings["wrapped"]["text"]
    assert findings["gated"]["level"] == "warning"
    assert "desk > clerk: the AgentTool itself asks for a confirmation" in findings["gated"]["text"]
    assert findings["credential"]["level"] == "warning"
    assert "credential > look: it may ask for a credential" in findings["credential"]["text"]


def test_ctrl_c_while_an_agent_loads_ends_doctor_without_a_traceback(file: Path) -> None:
    """The terminal also sends the signal to the process that loads the agents."""
    folder = file.parent / "agents" / "clerk"
    folder.mkdir()
    (folder / "agent.py").write_text(
        "import signal\nprint('google.adk: loading', flush=True)\nsignal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "signoff.cli", "doctor"],
        cwd=file.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("google.adk: loading" in line for line in lines)
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stderr.read()
    assert (process.returncode, rest) == (130, "")
