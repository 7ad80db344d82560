"""Finds the orphans of a session: calls of dead runs that will never be answered.

They do not affect a resume, and google-adk 2.13 does not show them to the model. But a long-running
call prevents the compaction of its session for ever, and in `adk web` an orphaned question looks as
if it were still open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.adk.events.event import Event

from signoff.worker.adk.history import confirmations


@dataclass(frozen=True, slots=True)
class Orphan:
    """A call that will never be answered.

    Attributes:
        id: Its id.
        name: The tool, or `adk_request_input` for a question.
        invocation: The invocation that made it.
    """

    id: str
    name: str
    invocation: str

    def __str__(self) -> str:
        return f"{self.name}() {self.id} of invocation {self.invocation}"


def orphans(events: Sequence[Event]) -> tuple[Orphan, ...]:
    """Return the orphans among the events of a session, the oldest first.

    Calls of the newest invocation are not orphans, because it may still be running. Calls that an
    open question is about are not either.
    """
    newest = events[-1].invocation_id if events else ""
    settled = {one.id for event in events for one in event.get_function_responses()}
    for event in events:
        for asked in confirmations(event):
            # Both the question and its call: some servers do not write a placeholder.
            settled |= {asked.id, asked.call_id}
    return tuple(
        Orphan(call.id, call.name or "", event.invocation_id or "")
        for event in events
        if event.invocation_id != newest
        for call in event.get_function_calls()
        if call.id and call.id not in settled
    )
