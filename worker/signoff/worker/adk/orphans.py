"""Calls in a session that nothing will answer any more: what runs that died have left behind.

They do no harm to a resume, and google-adk 2.13 does not show them to the model. But a call that is
long-running holds up the compaction of its session for ever, and a question that nobody is asked
any more looks in `adk web` as if somebody were.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from google.adk.events.event import Event

from signoff.worker.adk.history import confirmations


@dataclass(frozen=True, slots=True)
class Orphan:
    """One such call.

    Attributes:
        id: Its id.
        name: The tool, or `adk_request_confirmation` for a question.
        invocation: The invocation that made it.
        blocks: Whether it holds up compaction: google.adk.apps.compaction takes a long-running
            call of a tool for one that may still be answered, however old it is.
    """

    id: str
    name: str
    invocation: str
    blocks: bool

    def __str__(self) -> str:
        return f"{self.name}() {self.id} of invocation {self.invocation}"


def orphans(events: Sequence[Event], waiting: Collection[str] | None = None) -> tuple[Orphan, ...]:
    """Return the orphans of a session, the oldest first.

    Args:
        events: The session's events.
        waiting: The ids of the confirmations that somebody is still asked about; without it, every
            open question is taken for one of them.

    The newest invocation has none: it may be at work.
    """
    newest = events[-1].invocation_id if events else ""
    settled = {one.id for event in events for one in event.get_function_responses()}
    for event in events:
        for asked in confirmations(event):
            if waiting is None or asked.id in waiting:
                # The question, and the call that it is about: some servers write no placeholder.
                settled |= {asked.id, asked.call_id}
    found = []
    for event in events:
        if event.invocation_id == newest:
            continue
        for call in event.get_function_calls():
            if call.id and call.id not in settled:
                name = call.name or ""
                long_running = call.id in (event.long_running_tool_ids or ())
                blocks = long_running and not name.startswith("adk_request_")
                found.append(Orphan(call.id, name, event.invocation_id or "", blocks))
    return tuple(found)
