"""Agents for tests of ADK itself: the real Runner, real session stores, a scripted model.

Every `House.run` makes a new store and a new Runner, as a new process does; only the database
survives between them. The store simulates a death: it refuses after a number of events, so all
earlier events are stored and no later one is, whatever else has happened by then.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import Agent
from google.adk.agents.run_config import RunConfig
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import BaseNode, Workflow
from google.genai import types

from signoff.testing import Reply, ScriptedModel, ToolCall, Turn

CONFIRM = "adk_request_confirmation"
APP, USER, SESSION, RUN = "app", "user", "session", "run-1"


class Died(BaseException):
    """The process has died. ADK must not catch this."""


class MortalStore(SqliteSessionService):
    """A store whose process dies before it writes one event too many."""

    def __init__(self, path: str, events_to_live: int | None) -> None:
        super().__init__(path)
        self.events_to_live = events_to_live

    def _is_migration_needed(self) -> bool:
        return False  # ADK's own store leaves its connection open: a warning since Python 3.13

    async def append_event(self, session: Session, event: Event) -> Event:
        """Write the event, or die."""
        if self.events_to_live is not None:
            if self.events_to_live == 0:
                raise Died
            self.events_to_live -= 1
        return await super().append_event(session, event)


@dataclass
class House:
    """A database, an agent that runs on it, and a journal of the tools' effects."""

    database: Path
    resumable: bool = False
    store: Literal["sqlite", "database"] = "sqlite"
    root: Callable[[House], BaseNode] | None = None
    plugins: list[BasePlugin] = field(default_factory=list)
    journal: list[tuple[str, Any]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    """The input of the model, call by call."""

    # --- agents ---------------------------------------------------------------------------------

    def script(self, turn: Turn) -> Reply:
        """Call the tools that the user names ("pay:5 grant:3"), then repeat their answers."""
        self.turns.append(turn)
        if turn.tool_results:
            return "; ".join(
                f"{it.name} {json.dumps(dict(it.response))}" for it in turn.tool_results
            )
        parsers: dict[str, Callable[[str], ToolCall]] = {
            "pay": lambda word: ToolCall("pay", {"amount": float(word)}),
            "note": lambda word: ToolCall("note", {"text": word}),
            "grant": lambda word: ToolCall("grant", {"days": int(word)}),
        }
        words = [word.partition(":") for word in turn.user_text.split()]
        return [parsers[name](value) for name, _, value in words if name in parsers] or "Hello."

    def gated(self, name: str = "root") -> Agent:
        """Build an agent with a static gate (pay), a dynamic one (grant), and none (note)."""
        journal = self.journal

        def pay(amount: float) -> dict[str, float]:
            """Pay."""
            journal.append(("pay", amount))
            return {"paid": amount}

        def note(text: str) -> dict[str, str]:
            """Take a note."""
            journal.append(("note", text))
            return {"noted": text}

        def grant(days: int, tool_context: ToolContext) -> dict[str, Any]:
            """Grant days."""
            answer = tool_context.tool_confirmation
            if answer is None:
                tool_context.request_confirmation(hint="How many?", payload={"approved": 0})
                return {"status": "pending", "asked": days}
            journal.append(("grant", answer.confirmed))
            return {"granted": (answer.payload or {}).get("approved")}

        tools: list[Any] = [FunctionTool(pay, require_confirmation=True), note, grant]
        return Agent(name=name, model=ScriptedModel(script=self.script), tools=tools)

    def runner(self, service: BaseSessionService) -> Runner:
        """Build a Runner as the next process does."""
        return Runner(
            app=App(
                name=APP,
                root_agent=(self.root or House.gated)(self),
                plugins=self.plugins,
                resumability_config=ResumabilityConfig(is_resumable=True)
                if self.resumable
                else None,
            ),
            session_service=service,
        )

    # --- processes ------------------------------------------------------------------------------

    @asynccontextmanager
    async def service(self, events_to_live: int | None = None) -> AsyncIterator[BaseSessionService]:
        """Open the store as a new process does."""
        if self.store == "sqlite":
            yield MortalStore(str(self.database), events_to_live)
            return
        database = DatabaseSessionService(f"sqlite+aiosqlite:///{self.database}")
        try:
            yield database
        finally:
            await database.close()

    async def open(self) -> House:
        """Make the session."""
        async with self.service() as service:
            await service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
        return self

    async def run(
        self,
        message: types.Content | None,
        *,
        invocation: str | None = RUN,
        events_to_live: int | None = None,
        config: RunConfig | None = None,
    ) -> list[Event]:
        """Run a process until it ends or dies, and return the events that it yielded."""
        seen: list[Event] = []
        async with self.service(events_to_live) as service:
            stream = self.runner(service).run_async(
                user_id=USER,
                session_id=SESSION,
                invocation_id=invocation,
                new_message=message,
                run_config=config,
            )
            try:
                async for event in stream:
                    seen.append(event)  # noqa: PERF401 - what was seen before a death counts
            except Died:
                pass
        return seen

    async def history(self) -> list[Event]:
        """Read the events of the session."""
        async with self.service() as service:
            session = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
        assert session is not None
        return session.events

    async def append(self, event: Event) -> None:
        """Write an event into the session by hand."""
        async with self.service() as service:
            session = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
            assert session is not None
            await service.append_event(session, event)


class Wrapper(BaseAgent):
    """A custom root that ADK does not know: a user's subclass around another agent."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


def custom_root(house: House) -> BaseAgent:
    """Wrap the gated agent in a custom BaseAgent."""
    return Wrapper(name="root", sub_agents=[house.gated("inner")])


def speaker(name: str) -> Agent:
    """Build an agent that reports that it is done."""
    return Agent(name=name, model=ScriptedModel(script=lambda _turn: f"{name} done"))


def sequence_root(house: House) -> BaseAgent:
    """Build a sequence with the gated agent second of three."""
    agents: list[BaseAgent] = [speaker("first"), house.gated("second"), speaker("third")]
    return SequentialAgent(name="root", sub_agents=agents)


def workflow_root(house: House) -> BaseNode:
    """Build a workflow with a gated agent second of three nodes."""
    first, third = speaker("first"), speaker("third")
    second = house.gated("second")
    # A node gets the text of the node before it, not that of the user.
    second.model = ScriptedModel(
        script=lambda turn: house.script(replace(turn, user_text="pay:5")),
    )
    return Workflow(name="root", edges=[("START", first), (first, second), (second, third)])


def parent_root(house: House) -> BaseAgent:
    """Put the gated agent under a root that transfers to it."""

    def script(turn: Turn) -> Reply:
        return (
            "Done." if turn.tool_results else ToolCall("transfer_to_agent", {"agent_name": "sub"})
        )

    return Agent(name="root", model=ScriptedModel(script=script), sub_agents=[house.gated("sub")])


# --- messages and events ------------------------------------------------------------------------


def said(text: str) -> types.Content:
    """Build a user's message."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def response_to(request: types.FunctionCall, response: dict[str, Any]) -> types.Part:
    """Build the part that answers one request, with any response."""
    return types.Part(
        function_response=types.FunctionResponse(id=request.id, name=CONFIRM, response=response)
    )


def answer(
    requests: Sequence[types.FunctionCall], *, confirmed: bool = True, payload: object = None
) -> types.Content:
    """Build the message that answers all requests in the same way."""
    body = {"confirmed": confirmed, "payload": payload}
    return types.Content(role="user", parts=[response_to(it, body) for it in requests])


def requests_in(events: Sequence[Event]) -> list[types.FunctionCall]:
    """List the requests for confirmation among events."""
    return [call for event in events for call in event.get_function_calls() if call.name == CONFIRM]


def original(request: types.FunctionCall) -> types.FunctionCall:
    """Read the call that a request is about."""
    return types.FunctionCall(**(request.args or {})["originalFunctionCall"])


def told(events: Sequence[Event]) -> list[str]:
    """Return the events in short: author and content."""
    lines = []
    for event in events:
        words = []
        for part in (event.content.parts if event.content else None) or []:
            if part.function_call:
                words.append(f"calls {part.function_call.name}")
            elif part.function_response:
                response = json.dumps(part.function_response.response)
                words.append(f"{part.function_response.name} gave {response}")
            else:
                words.append(f"says {part.text}")
        if words:
            lines.append(f"{event.author} {', '.join(words)}")
    return lines


def from_user(events: Sequence[Event]) -> int:
    """Count the events with text of the user."""
    return sum(event.author == "user" and event.content is not None for event in events)
