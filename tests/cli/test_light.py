"""What a process or a command does not need, it does not import: memory, and time at each start."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from signoff.cli.composition.supervisor import Supervisor

AGENTS: Final = {"google", "litellm", "numpy", "pydantic_monty", "sqlalchemy"}
UNASKED: Final = {"authlib", "imapclient", "opentelemetry.sdk", "slack_sdk", "textual", "webauthn"}
"""What has to be set up, or done by somebody, before it is needed."""

BROUGHT: Final = {"greenlet._greenlet", "pygments", "rich.console", "typer", "yaml.loader"}
"""What libraries bring along that have no use for it here, and what starts the process."""

MAIL_READ: Final = {"dkim", "dns", "lxml", "publicsuffixlist", "tinycss2"}
"""Mails are parsed and proven in processes of their own."""

SERVERS: Final = {"celery", "fastapi", "uvicorn"}
SEALED: Final = {"cryptography.hazmat", "httpx", "joserfc", "jsonschema"}

_LINE: Final = re.compile(r"import time: +\d+ \| +\d+ \| +(\S+)$")


def imported(lines: list[str]) -> set[str]:
    """Return the modules and packages that a process with `-X importtime` has imported."""
    names = [found[1] for line in lines if (found := _LINE.match(line))]
    return {*names, *(name.partition(".")[0] for name in names)}


@pytest.fixture
def with_page(settings_file: Path) -> Path:
    """Settings with the inbox page."""
    page = '[inbox]\nurl = "http://localhost"\nsecret_key = "a-secret-of-32-characters-at-least"\n'
    settings_file.write_text(page + settings_file.read_text())
    return settings_file


async def test_each_process_imports_its_own(with_page: Path) -> None:
    """A gateway reads no mail and runs no stage; channels serve nothing; neither knows agents."""
    lines: dict[str, list[str]] = {"channels": [], "gateway": []}
    async with Supervisor(echo=lambda name, line: lines[name].append(line)) as supervisor:
        for kind in lines:
            timed = {"PYTHONPROFILEIMPORTTIME": "1"}
            await supervisor.signoff(kind, "--config", str(with_page), kind, env=timed)
        await supervisor.ready(within=60)
    gateway, channels = imported(lines["gateway"]), imported(lines["channels"])
    unused = AGENTS | UNASKED | BROUGHT | MAIL_READ | SEALED
    assert {"starlette", "signoff.channels.inbox.router"} <= gateway
    assert (unused | {"celery.worker", "fastapi"}) & gateway == set()
    assert "celery.worker" in channels
    assert (unused | {"fastapi", "uvicorn"}) & channels == set()


@pytest.mark.parametrize("words", ["approvals list", "policy explain --tool reimburse"])
def test_a_command_imports_no_server(words: str, settings_file: Path) -> None:
    """Nor the broker, unless it puts work into a stage."""
    command = [sys.executable, "-X", "importtime", "-m", "signoff.cli", *words.split()]
    done = subprocess.run(
        command, cwd=settings_file.parent, capture_output=True, text=True, check=True
    )
    found = imported(done.stderr.splitlines())
    assert "pydantic" in found
    assert (AGENTS | UNASKED | MAIL_READ | SERVERS | SEALED) & found == set()
