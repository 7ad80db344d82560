"""A shop whose agent runs code of CX Agent Studio."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.runners import InMemoryRunner
from google.genai import types

from signoff.testing.model import Reply, ScriptedModel, ToolCall, Turn
from signoff.worker.ces.lowering import lower
from signoff.worker.ces.plugin import CesCallbacks
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.sandbox import Answer, Done, Sandbox, SuspendedCall
from signoff.worker.ces.toolset import CesToolset

USER = "riley@example.com"


async def run(body: str, *, rules: Rules | None = None, context: Mapping[str, Any] = {}) -> Any:
    """Run a function body in a sandbox without outside access, and return its result."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    ended = await run_file(f"def main():\n{lines}\n", rules=rules, context=context)
    return ended.result


async def run_file(
    source: str,
    *,
    rules: Rules | None = None,
    context: Mapping[str, Any] = {},
    answers: Mapping[str, Answer] = {},
) -> Done:
    """Run `main()` of a file in the sandbox; calls to the outside get these answers, by kind."""

    async def host(
        kind: str, args: dict[str, Any], state: dict[str, Any]
    ) -> Answer | SuspendedCall:
        return answers.get(kind, {})

    async def settle() -> dict[str, Any]:
        return {}

    ended = await Sandbox(rules or Rules()).run(
        lower(source, "main.py"),
        "main",
        setup={
            "context": {"signoff": "ToolContext", "state": {}, **context},
            "tools": ["lookup"],
            "marked": False,
            "objects": [],
        },
        args={},
        host=host,
        settle=settle,
    )
    assert isinstance(ended, Done)
    return ended


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files into a new folder, and return it."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def app(
    tools: Path,
    call: ToolCall,
    *more: Any,
    callbacks: Path | None = None,
    rules: Rules | None = None,
) -> App:
    """Return an app whose agent makes one call, and then repeats the result."""

    def script(turn: Turn) -> Reply:
        if not turn.tool_results:
            return call
        return f"It gave {dict(turn.tool_results[-1].response)}"

    agent = LlmAgent(
        name="shop",
        model=ScriptedModel(script=script),
        tools=[CesToolset(tools, rules), *more],
        instruction="Help.",
    )
    plugins = [CesCallbacks(callbacks, rules)] if callbacks is not None else []
    return App(name="shop", root_agent=agent, plugins=plugins)


class Talk:
    """One session with an app, in a real Runner."""

    def __init__(self, of: App) -> None:
        self.runner = InMemoryRunner(app=of)
        self.id = ""

    async def say(self, text: str) -> list[Event]:
        """Send a message, and return the events of the turn."""
        if not self.id:
            session = await self.runner.session_service.create_session(
                app_name="shop", user_id=USER
            )
            self.id = session.id
        return await self._send(types.Part(text=text))

    async def answer(self, request: str, *, confirmed: bool) -> list[Event]:
        """Answer a request for a confirmation, and return the events of the turn."""
        given = types.FunctionResponse(
            id=request, name="adk_request_confirmation", response={"confirmed": confirmed}
        )
        return await self._send(types.Part(function_response=given))

    async def _send(self, part: types.Part) -> list[Event]:
        message = types.Content(role="user", parts=[part])
        return [
            event
            async for event in self.runner.run_async(
                user_id=USER, session_id=self.id, new_message=message
            )
        ]

    async def state(self) -> dict[str, Any]:
        """Return the session's state."""
        session = await self.runner.session_service.get_session(
            app_name="shop", user_id=USER, session_id=self.id
        )
        assert session is not None
        return dict(session.state)


def result(events: list[Event]) -> dict[str, Any]:
    """Return the result of a turn's tool."""
    found = [one for event in events for one in event.get_function_responses()]
    return dict(found[-1].response or {})
