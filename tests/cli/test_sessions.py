"""Sessions in a file, the last release's default: paused runs continue there and in Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from cli.conftest import Invoke
from cli.test_commands import on_ledger
from deciding import Decider
from signoff.broker.heartbeat import beat
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.sessions import Name, SessionRecords, States
from signoff.cli.composition.parts import build
from signoff.cli.composition.sessions import open_sessions
from signoff.cli.config.settings import load_settings
from signoff.core.approvals.run import Run, RunState
from signoff.core.directory.people import Directory
from signoff.worker.adk.apps import Apps
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.adk.sessions.ledger import LedgerSessionService
from signoff.worker.adk.sessions.sqlite import PatientSqliteSessionService
from signoff.worker.executor import Executor
from worker.office import MARA, HandClock, Office

__all__ = ["on_ledger"]

OnLedger = Callable[[Callable[[Ledger], Awaitable[Any]]], Any]
CONFERENCE = "Reimburse me $2500 for the conference"

# ADK warns about its experimental features.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.fixture
def older(settings_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the last release's file for sessions, which is still empty."""
    folder = settings_file.parent / ".signoff"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(settings_file.parent / "journal.jsonl"))
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    PatientSqliteSessionService(folder / "sessions.db")
    return folder / "sessions.db"


async def worked(work: Callable[[Office], Awaitable[Run]]) -> tuple[Run, type, Office]:
    """Run work in an office with the current settings; return its kind of store too."""
    settings = load_settings()
    parts = build(settings)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(parts.ledger.close)
        guard = GuardPlugin(parts.ledger)
        apps = Apps(settings.agents_folder, open_sessions(parts), lambda: guard)
        stack.push_async_callback(apps.close)
        office = Office(
            ledger=parts.ledger,
            decider=Decider(parts.ledger, Directory([MARA])),
            executor=Executor(parts.ledger, AdkRuntime(apps, guard)),
            apps=apps,
            clock=HandClock(await parts.ledger.now()),
            journal=settings.home / "journal.jsonl",
        )
        return await work(office), type(apps.sessions), office


async def paused(office: Office) -> Run:
    """Bring a run to its pause as the last release does, and approve it."""
    run = await office.submit("finance", CONFERENCE)
    assert run.state is RunState.PAUSED
    await office.approve(run)
    return run


def test_run_paused_by_the_last_release_resumes(older: Path) -> None:
    """Its session file stays in use, and the log says so and what to do."""
    run, kind, _ = asyncio.run(worked(paused))
    assert kind is PatientSqliteSessionService
    with structlog.testing.capture_logs() as logged:
        run, _, office = asyncio.run(worked(lambda office: office.resume(run)))
    assert run.state is RunState.COMPLETED
    assert len(office.executed()) == 1
    (line,) = [one for one in logged if one["event"] == "sessions.in_file"]
    assert line["file"] == str(older)
    assert "signoff sessions move" in line["problem"]


def test_run_resumes_in_redis_after_its_session_is_moved(older: Path, invoke: Invoke) -> None:
    """It has all its events; the file is renamed, and nothing else has to be done."""
    run, *_ = asyncio.run(worked(paused))
    moved = older.with_name("sessions.db.moved")
    done = json.loads(invoke("sessions", "move", "--json").output)
    assert done == {"sessions": 1, "file": str(moved)}
    assert moved.is_file()
    assert not older.exists()
    run, kind, office = asyncio.run(worked(lambda office: office.resume(run)))
    assert kind is LedgerSessionService
    assert run.state is RunState.COMPLETED
    assert len(office.executed()) == 1
    assert "nothing to move" in str(invoke("sessions", "move").output)


def test_all_that_a_file_has_is_moved(older: Path, invoke: Invoke, on_ledger: OnLedger) -> None:
    """Shared states move too; newer data in Redis stays."""

    async def fill() -> None:
        sessions = PatientSqliteSessionService(older)
        state = {"own": [1], "user:city": "Graz", "app:rate": 0.1}
        for name in ("one", "two"):
            await sessions.create_session(
                app_name="finance", user_id="riley", session_id=name, state=state
            )
        await sessions.close()

    async def newer(ledger: Ledger) -> None:
        records = SessionRecords(ledger.store)
        states = States({"own": "2"}, {"rate": "5"})
        await records.make(Name("finance", "riley", "two"), states, at=9e9)

    async def found(ledger: Ledger) -> dict[str, States]:
        listed = await SessionRecords(ledger.store).listed("finance", "riley")
        return {one.name.id: one.states for one in listed}

    asyncio.run(fill())
    on_ledger(newer)
    assert json.loads(invoke("sessions", "move", "--json").output)["sessions"] == 1
    shared = ({"rate": "5"}, {"city": '"Graz"'})
    assert on_ledger(found) == {
        "one": States({"own": "[1]"}, *shared),
        "two": States({"own": "2"}, *shared),
    }


def test_session_in_use_is_not_moved(older: Path, invoke: Invoke, on_ledger: OnLedger) -> None:
    """A running worker would continue in the file."""
    on_ledger(lambda ledger: beat(ledger, "worker", "host/17"))
    assert "Stop all workers" in invoke("sessions", "move").output
    assert older.is_file()


def test_a_file_that_cannot_be_read_stays(older: Path, invoke: Invoke) -> None:
    """The error says what to do."""
    older.write_bytes(b"nonsense" * 512)
    assert "cannot be read" in invoke("sessions", "move").output
    assert older.is_file()
