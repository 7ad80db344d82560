"""The how-to of each framework, run unchanged: the protocol's clients and this gateway.

Most frameworks are installed with Signoff. The others conflict with them, so each of these has
an environment of its own: `tests/whole/frameworks` makes them in the folder that
SIGNOFF_FRAMEWORKS names. Only the model is replaced, by the variables of its client.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path

import httpx
import pytest

from model_server import model
from ports import free_port
from promises.plant import Plant, plant
from services import missing
from signoff.channels.aap import instances
from test_docs import blocks

FOLDER = Path(os.environ.get("SIGNOFF_FRAMEWORKS", "/tmp/signoff-frameworks"))
OF_THEIR_OWN = ("crewai", "claude-agent-sdk")
NAMES = ("adk", "langgraph", "pydantic-ai", "openai-agents", *OF_THEIR_OWN)
WAITS_ONLY = {"crewai"}
AAP = "[aap]\nenabled = true\nallow_private = true"
DONE = "refunded 49.50 for A-17"


def python_of(name: str) -> str:
    """Return the Python interpreter that has a framework."""
    if name not in OF_THEIR_OWN:
        return sys.executable
    found = FOLDER / name / "bin" / "python"
    if not found.exists():
        missing(f"{name}, in an environment of its own,", f"tests/whole/frameworks {FOLDER}")
    return str(found)


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Plant]:
    """Run channels and a gateway that serves the protocol."""
    async with plant(folder, gateway=AAP) as here:
        here.environment["SIGNOFF_GATEWAY__PORT"] = str(free_port())
        await here.start("channels", "gateway")
        yield here


async def variables(here: Plant, name: str, receiver: str = "") -> dict[str, str]:
    """Return the variables that `signoff aap instance add` prints for a new instance."""
    made, token = await instances.create(
        here.parts.ledger, name, user="riley", by="test", receiver=receiver
    )
    found = {
        "AAP_URL": f"http://localhost:{here.environment['SIGNOFF_GATEWAY__PORT']}/aap",
        "AAP_TOKEN": token,
        "AAP_INSTANCE_ID": made.id,
    }
    if made.receiver is not None:
        found["AAP_SECRET"] = made.receiver.signing_secret
        found["AAP_REGISTRATION_ID"] = made.receiver.registration_id
    return found


@asynccontextmanager
async def started(
    folder: Path, environment: dict[str, str], *command: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program of a framework without the variables of this environment."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**keep, "IS_SANDBOX": "1", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def answer(here: Plant, seen: set[str], text: str) -> None:
    """Answer the next card by mail."""

    def fresh(mail: EmailMessage) -> bool:
        return "+" in str(mail["Reply-To"]) and str(mail["Message-ID"]) not in seen

    mail = await here.mailbox.wait_for(fresh)
    seen.add(str(mail["Message-ID"]))
    await here.answer(mail, text)


def code(name: str, file: str) -> str:
    """Return a file from the how-to of a framework."""
    found = blocks(f"docs/how-to/ask-from-{name}.md", "python")
    return next(one for one in found if one.startswith(f"# {file}\n"))


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
async def test_an_agent_waits_for_the_decision(tmp_path: Path, name: str) -> None:
    """An approval runs the tool, and the model reads the reason of a rejection."""
    python = python_of(name)
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "agent.py").write_text(code(name, "agent.py"))
    seen: set[str] = set()
    async with gateway(tmp_path) as here, model() as models:
        environment = models | await variables(here, "support")
        for text, wanted in (("approve", DONE), ("reject: over budget", "over budget")):
            async with started(folder, environment, python, "agent.py") as process:
                answering = asyncio.create_task(answer(here, seen, text))
                output, _ = await process.communicate()
                answering.cancel()
            assert wanted in output.decode(), output.decode()
        store = here.parts.ledger.store
        approvals = await here.parts.ledger.approvals(await store.members("approvals"))
        assert sorted(one.starts for one in approvals) == [0, 1]
        assert {one.handoff.value for one in approvals} == {"recorded", "resumed"}


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [one for one in NAMES if one not in WAITS_ONLY])
async def test_an_agent_pauses_and_is_woken(tmp_path: Path, name: str) -> None:
    """Its receiver is verified and notified, and the run continues with one tool run."""
    python = python_of(name)
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "server.py").write_text(code(name, "server.py"))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with gateway(tmp_path) as here, model() as models:
        environment = models | await variables(here, "desk", f"{url}/aap/events")
        command = (python, "-m", "uvicorn", "server:app", "--port", str(port))
        async with (
            started(folder, environment, *command) as server,
            httpx.AsyncClient(base_url=url, timeout=60) as http,
        ):
            await _up(http, server)
            question = {"question": "Refund 49.50 for order A-17."}
            (await http.post("/ask/1", params=question)).raise_for_status()
            await answer(here, set(), "approve")
            await _until(http, "/ask/1", DONE, server)
        store = here.parts.ledger.store
        (approval,) = await here.parts.ledger.approvals(await store.members("approvals"))
        assert approval.starts == 1


async def _up(http: httpx.AsyncClient, server: asyncio.subprocess.Process) -> None:
    """Wait until a server listens."""
    await _until(http, "/openapi.json", "paths", server)


async def _until(
    http: httpx.AsyncClient, path: str, wanted: str, server: asyncio.subprocess.Process
) -> None:
    """Poll a server until a question has an answer; there is no other signal."""
    for _ in range(600):
        assert server.returncode is None, (await server.communicate())[0].decode()
        try:
            if wanted in (await http.get(path)).text:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.2)
    server.kill()
    raise AssertionError((await server.communicate())[0].decode())
