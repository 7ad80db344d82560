"""ADK's Runner alone, as its documentation uses it: to the pause, answer, to the end."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path

from google.adk.apps.app import App
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.runners import Runner
from google.genai import types

from benchmarks.office import APP, MESSAGE, USER
from signoff.broker.doorbells.loop import LoopThread
from signoff.worker.adk.apps import session_service

_CONFIRMATION = "adk_request_confirmation"


class Naked:
    """The same agent on the same kind of session store, without Signoff.

    Args:
        database: The SQLite file.
        folder: The folder of the agents.
    """

    def __init__(self, database: Path, folder: Path) -> None:
        self.loop = LoopThread()
        self._sessions = session_service(f"sqlite:///{database}", folder)
        loaded = AgentLoader(str(folder)).load_agent(APP)
        app = loaded if isinstance(loaded, App) else App(name=APP, root_agent=loaded)
        self._runner = Runner(app=app, app_name=APP, session_service=self._sessions)

    async def measure(self, count: int, at_once: int) -> float:
        """Do so many runs, so many of them at once, and return the seconds it took."""
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
        """Say something, drain the turn, and return the ids of the confirmations it asks for."""
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
