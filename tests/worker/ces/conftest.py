"""Fixtures of the tests of CX Agent Studio code."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signoff.worker.adk.apps import Apps
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.ces import rules as process_rules
from signoff.worker.ces.rules import Rules
from signoff.worker.executor import Executor
from worker.ces.shop import AGENT
from worker.ces.studio import write
from worker.office import Office


@pytest.fixture(autouse=True)
def same_rules() -> Iterator[None]:
    """Restore the rules of this process after the test."""
    before = process_rules.current()
    yield
    process_rules.use(before)


@pytest.fixture
def shop(office: Office, tmp_path: Path) -> Any:
    """Return a function that makes an agent of some tools, under rules of the process."""

    def make(
        rules: Rules,
        call: str,
        *,
        args: str = "{}",
        resumable: bool = False,
        length: int = 1,
        callbacks: str = "",
        **tools: str,
    ) -> str:
        # ADK's loader keeps imported modules by their name.
        app = f"shop_{uuid.uuid4().hex}"
        folder = tmp_path / "agents" / app
        write(folder / "tools", {f"{name}.py": text for name, text in tools.items()})
        write(
            folder,
            {
                "__init__.py": "from . import agent as agent\n",
                "agent.py": AGENT.replace("CALL", call)
                .replace("ARGS", args)
                .replace("RESUMABLE", str(resumable))
                .replace("LENGTH", str(length)),
                **({"callbacks/one.py": callbacks} if callbacks else {}),
            },
        )
        process_rules.use(rules)
        guard = GuardPlugin(office.ledger)
        office.apps = Apps(tmp_path / "agents", office.apps.sessions, lambda: guard)
        office.executor = Executor(office.ledger, AdkRuntime(office.apps, guard))
        return app

    return make
