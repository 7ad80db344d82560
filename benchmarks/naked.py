"""ADK's Runner alone, as its documentation shows: until the pause, the answer, the end."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path

from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.workflow import BaseNode
from google.genai import types

from benchmarks.office import APP, MESSAGE, USER
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.ledger.store import Store
from signoff.testing import ScriptedModel
from signoff.worker.adk.apps import session_service

_CONFIRMATION = "adk_request_confirmation"


class Naked:
    """The same agent without Signoff.

    Args:
        sessions: A file for ADK's own SQLite store with its defaults, or the URL of a Redis that
            keeps the sessions as Signoff does.
        folder: The folder of the agents.
        delay: The seconds that the model takes.
    """

    def __init__(self, sessions: str, folder: Path, delay: float = 0) -> None:
        self.loop = LoopThread()
        self._sessions: BaseSessionService
        if "://" in sessions:
            self._sessions = session_service("", folder, Store.open(sessions))
        else:
            self._sessions = SqliteSessionService(sessions)
        loaded = AgentLoader(str(folder)).load_agent(APP)
        app = loaded if isinstance(loaded, App) else App(name=APP, root_agent=loaded)
        let_think(app.root_agent, delay)
        self._runner = Runner(app=app, app_name=APP, session_service=self._sessions)

    async def measure(self, count: int, at_once: int) -> float:
        """Do this number of runs, `at_once` of them concurrently, and return the seconds."""
        slots = asyncio.Semaphore(at_once)

        async def one() -> None:
            async with slots:
                await self._one()

        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(count)))
        return time.perf_counter() - started

    async def _one(self) -> None:
        session = secrets.token_hex(8)
        await self._sessions.create_session(app_name=APP, user_id=USER, session_id=session)
        (asked,) = await self._say(session, types.Part(text=MESSAGE))
        answer = types.FunctionResponse(
            id=asked, name=_CONFIRMATION, response={"confirmed": True, "payload": None}
        )
        left = await self._say(session, types.Part(function_response=answer))
        if left:
            raise RuntimeError("The agent did not go on after its answer.")

    async def _say(self, session: str, part: types.Part) -> list[str]:
        """Send a message, drain the turn, and return the ids of its confirmation requests."""
        asked = []
        async for event in self._runner.run_async(
            user_id=USER,
            session_id=session,
            new_message=types.Content(role="user", parts=[part]),
        ):
            asked += [
                call.id or "" for call in event.get_function_calls() if call.name == _CONFIRMATION
            ]
        return asked


def let_think(agent: BaseAgent | BaseNode | None, delay: float) -> None:
    """Let the scripted model of an agent take this number of seconds for each answer."""
    model = getattr(agent, "model", None)
    if isinstance(model, ScriptedModel):
        model.delay = delay
