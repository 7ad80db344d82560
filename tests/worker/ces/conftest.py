"""Fixtures of the tests of CX Agent Studio code."""

from __future__ import annotations

import uuid
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


@pytest.fixture
def shop(office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes an agent of some tools, under rules of the process."""

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
        # The loader of ADK keeps what it has imported, by its name.
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
        monkeypatch.setattr(process_rules, "_current", [rules])
        guard = GuardPlugin(office.ledger)
        office.apps = Apps(tmp_path / "agents", office.apps.sessions, lambda: guard)
        office.executor = Executor(office.ledger, AdkRuntime(office.apps, guard))
        return app

    return make
