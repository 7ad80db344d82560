"""An agent whose session is compacted after every turn, with a gate and a long-running tool."""

import json
import os
from pathlib import Path

from google.adk.agents import Agent
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


class Shortest(BaseEventsSummarizer):
    """Replaces any text by one word."""

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        """Summarize, saying from when to when."""
        return Event(
            author="user",
            invocation_id=Event.new_id(),
            actions=EventActions(
                compaction=EventCompaction(
                    start_timestamp=events[0].timestamp,
                    end_timestamp=events[-1].timestamp,
                    compacted_content=types.Content(role="model", parts=[types.Part(text="S")]),
                )
            ),
        )


def pay(to: str) -> dict[str, str]:
    """Pay somebody."""
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a", encoding="utf-8") as journal:
        journal.write(json.dumps({"paid": to}) + "\n")
    return {"status": "ok", "paid": to}


def export(what: str) -> None:
    """Begin an export whose result arrives later."""


def script(turn: Turn) -> Reply:
    """Call the tool that the message names, or write a long text."""
    if turn.tool_results:
        return json.dumps(dict(turn.tool_results[-1].response))
    calls = {"pay": ToolCall("pay", {"to": "A"}), "export": ToolCall("export", {"what": "all"})}
    return calls.get(turn.user_text, "let us talk about something else " * 20)


app = App(
    name="compacting",
    root_agent=Agent(
        name="root",
        model=ScriptedModel(script=script),
        tools=[FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(export)],
    ),
    events_compaction_config=EventsCompactionConfig(
        compaction_interval=1, overlap_size=0, summarizer=Shortest()
    ),
)
