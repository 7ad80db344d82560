"""Processes and commands import only what they need, to save memory and time."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import psutil
import pytest
import redis
from pydantic import BaseModel
from typer.core import TyperGroup
from typer.main import get_command

from ports import free_port
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.channels.rest import PATH
from signoff.cli.composition.kinds import KINDS
from signoff.cli.composition.supervisor import Supervisor
from signoff.cli.config.settings import Settings
from signoff.cli.tree import assemble, commands_of
from signoff.core.approvals.approval import Approval
from signoff.core.base.model import Value

AGENTS: Final = {"google", "litellm", "numpy", "pydantic_monty", "sqlalchemy"}
UNASKED: Final = {"authlib", "imapclient", "opentelemetry.sdk", "slack_sdk", "textual", "webauthn"}
"""Modules for optional features, or for specific requests."""

BROUGHT: Final = {"greenlet._greenlet", "pygments", "rich.console", "typer", "yaml.loader"}
"""Modules that libraries import without need, and modules that start the process."""

MAIL_READ: Final = {"dkim", "dns", "lxml", "publicsuffixlist", "tinycss2"}
"""Separate processes read and verify mails."""

SERVERS: Final = {"celery", "fastapi", "uvicorn"}
MADE_ELSEWHERE: Final = {
    "signoff.broker.effects",
    "signoff.broker.work",
    "signoff.core.approvals.moves",
    "signoff.core.lexicon.languages",
    "signoff.core.replies.reply",
}
"""Modules for commands that decide, add work to a stage or read a reply."""

UNREAD: Final = {"email.feedparser", "idna", "pydantic_settings", "rich.console"}
"""Modules that read the metadata of packages, international names, settings in the environment,
and that lay out what a terminal shows."""

SEALED: Final = {"cryptography.hazmat", "httpx", "joserfc", "jsonschema"}

_LINE: Final = re.compile(r"import time: +\d+ \| +\d+ \| +(\S+)$")


def imported(lines: list[str]) -> set[str]:
    """Return the modules that a process with `-X importtime` has imported."""
    names = [found[1] for line in lines if (found := _LINE.match(line))]
    return {*names, *(name.partition(".")[0] for name in names)}


def imported_by_module(module: str, *words: str, folder: Path, given: str = "") -> set[str]:
    """Run a module with these arguments and this input; return its imports."""
    command = [sys.executable, "-P", "-X", "importtime", "-m", module, *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, input=given, check=False
    )
    assert done.returncode in {0, 1}, done.stderr  # 1 is a finding of `doctor`
    return imported(done.stderr.splitlines())


@pytest.fixture
def with_page(settings_file: Path) -> Path:
    """Return settings with the inbox page."""
    page = '[inbox]\nurl = "http://localhost"\nsecret_key = "a-secret-of-32-characters-at-least"\n'
    settings_file.write_text(page + settings_file.read_text())
    return settings_file


async def imported_by(file: Path, *kinds: str) -> dict[str, set[str]]:
    """Return the imports of each process until it is ready."""
    lines: dict[str, list[str]] = {kind: [] for kind in kinds}
    async with Supervisor(echo=lambda name, line: lines[name].append(line)) as supervisor:
        for kind in kinds:
            timed = {"PYTHONPROFILEIMPORTTIME": "1"}
            await supervisor.signoff(kind, "--config", str(file), kind, env=timed)
        await supervisor.ready(within=300)
    return {kind: imported(lines[kind]) for kind in kinds}


async def test_each_process_imports_its_own(with_page: Path) -> None:
    """The gateway reads no mail and needs no Celery, channels serve no HTTP; neither has agents."""
    found = await imported_by(with_page, "gateway", "channels")
    gateway, channels = found["gateway"], found["channels"]
    unused = AGENTS | UNASKED | BROUGHT | MAIL_READ | SEALED
    assert {"starlette", "signoff.channels.inbox.router"} <= gateway
    unread = {"signoff.core.lexicon", "signoff.core.replies.reading"}
    assert (unused | unread | {"celery", "kombu", "fastapi"}) & gateway == set()
    assert "celery.worker" in channels
    assert (unused | {"fastapi", "starlette", "uvicorn"}) & channels == set()


async def test_the_rest_api_does_not_load_the_reader_of_replies(with_page: Path) -> None:
    """Its lexicon is large, and only mails need it."""
    lines, port = list[str](), free_port()
    env = {"PYTHONPROFILEIMPORTTIME": "1", "SIGNOFF_GATEWAY__PORT": str(port)}
    async with Supervisor(echo=lambda _, line: lines.append(line)) as supervisor:
        await supervisor.signoff("gateway", "--config", str(with_page), "gateway", env=env)
        await supervisor.ready(within=300)
        async with httpx.AsyncClient(timeout=60) as http:
            assert (await http.get(f"http://127.0.0.1:{port}{PATH}/me")).status_code == 401
    found = imported(lines)
    assert "fastapi" in found
    assert "signoff.core.replies.reading" not in found


@pytest.mark.soak
async def test_worker_imports_only_what_a_run_needs(with_page: Path) -> None:
    """It imports the agent framework, but no databases and no command line."""
    worker = (await imported_by(with_page, "worker"))["worker"]
    assert "google.adk.runners" in worker
    assert {"aiosqlite", "litellm", "sqlalchemy", "typer", "uvicorn"} & worker == set()


def switches(process: psutil.Process) -> int:
    """Return how often the threads of a process have been suspended."""
    folder = Path(f"/proc/{process.pid}/task")
    texts = [(one / "status").read_text() for one in folder.iterdir()]
    return sum(int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for text in texts)


@pytest.fixture
def resting(with_page: Path, tmp_path: Path) -> Iterator[redis.Redis]:
    """Return a Redis whose counters no other test changes."""
    with EmbeddedRedis(tmp_path / "redis", fsync="everysec") as server:
        metrics = "[metrics]\nenabled = true\nworker_port = 0\nchannels_port = 0\n"
        text = re.sub('(?m)^url = "redis.*$', f'url = "{server.url}"', with_page.read_text())
        with_page.write_text(metrics + text)
        with redis.Redis.from_url(server.url) as client:
            yield client


def counted(client: redis.Redis) -> tuple[int, int]:
    """Return the numbers of heartbeats and of commands that Redis has had."""
    found = client.info("commandstats")
    calls = {name: one["calls"] for name, one in found.items() if name != "cmdstat_info"}
    # Only heartbeats use this command.
    return calls.get("cmdstat_zremrangebyscore", 0), sum(calls.values())


def after(client: redis.Redis, beats: int) -> tuple[int, int]:
    """Wait for this number of further heartbeats; return `counted`, which may have more."""
    wanted = counted(client)[0] + beats
    for _ in range(300):
        if (found := counted(client))[0] >= wanted:
            return found
        time.sleep(1)
    raise TimeoutError(f"{found[0] - wanted + beats} of {beats} heartbeats in 300 s")


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="Linux says how often a thread has waited.")
async def test_processes_at_rest_sleep(with_page: Path, resting: redis.Redis) -> None:
    """Between two heartbeats (5 s), each process wakes a few times and Redis has little work.

    The test counts and does not measure time. A check every half second would need 30 wakeups,
    and 60 commands per heartbeat.
    """
    async with Supervisor() as supervisor:
        seen = {}
        for kind in KINDS:
            child = await supervisor.signoff(kind, "--config", str(with_page), kind)
            seen[kind] = psutil.Process(child.pid)
        await supervisor.ready(within=300)
        first, commands = await asyncio.to_thread(after, resting, len(KINDS))
        before = {kind: switches(one) for kind, one in seen.items()}
        await asyncio.to_thread(after, resting, 4 * len(KINDS))
        woken = {kind: switches(one) - before[kind] for kind, one in seen.items()}
        last, total = counted(resting)
    beats, commands = last - first, total - commands
    assert commands <= 25 * beats
    assert max(woken.values()) <= 15 * beats / len(KINDS), woken


@pytest.mark.parametrize("words", ["approvals list", "policy explain --tool reimburse"])
def test_a_command_imports_no_server(words: str, settings_file: Path) -> None:
    """It imports the broker only if it adds work to a stage."""
    found = imported_by_module("signoff.cli", *words.split(), folder=settings_file.parent)
    assert "pydantic" in found
    unused = AGENTS | UNASKED | MAIL_READ | SERVERS | SEALED | MADE_ELSEWHERE | UNREAD
    assert unused & found == set()


def test_next_steps_need_no_templates(tmp_path: Path) -> None:
    """`approvals show` prints what comes next; loading Jinja would take a tenth of the command."""
    found = imported_by_module("signoff.channels.words.next_steps", folder=tmp_path)
    assert "signoff.core.simulation.timeline" in found
    assert "jinja2" not in found


def models_below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Return all subclasses of a model that are loaded."""
    for one in model.__subclasses__():
        yield one
        yield from models_below(one)


def test_models_have_no_annotations_as_text() -> None:
    """Pydantic would compile the text of each annotation, again for each subclass."""
    # Other tests of the process may have models of their own.
    models = {one for one in models_below(Value) if one.__module__.startswith("signoff.")}
    assert {Approval, Settings} <= models
    texts = {
        f"{one.__qualname__}.{name}"
        for one in models
        for name, annotation in vars(one).get("__annotations__", {}).items()
        if isinstance(annotation, str)
    }
    assert texts == set()


def test_doctor_imports_only_configured_parts(settings_file: Path) -> None:
    """Without OpenID Connect and a mailbox in the settings, their modules are not imported."""
    found = imported_by_module("signoff.cli", "doctor", folder=settings_file.parent)
    assert "celery" in found
    looked_at = {"signoff.channels.inbox.auth.oidc", "signoff.channels.email.imap.check"}
    assert (AGENTS | UNASKED | looked_at | {"httpx", "yaml.loader"}) & found == set()


def test_loading_an_agent_imports_few_modules(tmp_path: Path) -> None:
    """It imports no credentials, no workflows and no Redis client."""
    (tmp_path / "clerk").mkdir()
    code = (
        "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name='clerk', model='m')\n"
    )
    (tmp_path / "clerk" / "agent.py").write_text(code)
    request = json.dumps([str(tmp_path), {}])
    found = imported_by_module("signoff.cli.doctor.agents", folder=tmp_path, given=request)
    assert "google.adk.agents.llm_agent" in found
    unused = {"google.adk.auth.credential_manager", "google.adk.workflow._workflow", "redis"}
    assert unused & found == set()


@pytest.mark.parametrize("options", [["--config", "signoff.toml"], ["--config=signoff.toml"]])
def test_agents_keep_the_plugins_of_pydantic(options: list[str], settings_file: Path) -> None:
    """Short commands switch the plugins off; a command that loads agents does not."""
    folder = settings_file.parent / "agents" / "clerk"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text(
        "import os\nfrom google.adk.agents import LlmAgent\n"
        "assert 'PYDANTIC_DISABLE_PLUGINS' not in os.environ\n"
        "root_agent = LlmAgent(name='clerk', model='m')\n"
    )
    text = re.sub('(?m)^folder = ".*"$', 'folder = "agents"', settings_file.read_text())
    settings_file.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "signoff.cli", *options, "doctor", "--json"],
        cwd=settings_file.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [one for one in json.loads(done.stdout)["findings"] if one["about"] == "agents"]
    assert [one["level"] for one in found] == ["good"], found


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("approvals list --all", ["list"]),
        ("--config other.toml approvals show ap_1", ["show"]),
        ("audit nonsense", ["export", "verify"]),
    ],
)
def test_command_line_loads_only_the_called_command(line: str, left: list[str]) -> None:
    """An unknown command gets the whole group, so that it can suggest one."""
    made = get_command(assemble(*commands_of(line.split())))
    assert isinstance(made, TyperGroup)
    (group,) = made.commands.values()
    assert isinstance(group, TyperGroup)
    assert sorted(group.commands) == left
