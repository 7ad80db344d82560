"""Shows the events of a running turn to its watchers, in ADK's wire form."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from google.adk.auth.auth_credential import _redact_credential_secrets
from google.adk.events._internal_metadata import public_event, public_session
from google.adk.events.event import Event
from google.adk.sessions.session import Session

from signoff.broker import live
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.run import Run

EventSink = Callable[[Run, Event], Awaitable[None]]
"""Takes each event of a turn; it never raises, so that it cannot fail the turn."""

WireSink = Callable[[Run, dict[str, Any]], Awaitable[None]]
"""The same for events in ADK's wire form."""

_MOST_TURNS: Final = 1_000

MOST_PARTS: Final = 5_000
"""How many partial events of a turn are shown: half of a stream's capacity; see `live`."""


async def show_nobody(run: Run, event: object) -> None:
    """Ignore an event."""


def shown_through(ledger: Ledger) -> EventSink:
    """Return a sink that shows the events of watched runs through the ledger's Redis."""
    show_json = json_shown_through(ledger)

    async def show(run: Run, event: Event) -> None:
        if run.watched:
            await show_json(run, event_json(event))

    return show


def json_shown_through(ledger: Ledger) -> WireSink:
    """Return a sink for events in wire form.

    A model that streams sends many partial events. Each of them may be lost, because the whole
    event follows. If Redis cannot be reached, the turn's other partial events are not sent, so that
    they do not delay the turn. Their number is limited, so that they do not push whole events out
    of the stream.
    """
    parts: dict[tuple[str, int], int] = {}

    async def show(run: Run, event: dict[str, Any]) -> None:
        if not run.watched:
            return
        turn, partial = (run.id, run.pause), event.get("partial") is True
        if partial and parts.get(turn, 0) >= MOST_PARTS:
            return
        name = "" if partial else str(event.get("id") or "")
        shown = await live.publish(ledger, run, name, json.dumps(event))
        if not shown:
            parts[turn] = MOST_PARTS
        elif partial:
            parts[turn] = parts.get(turn, 0) + 1
        if len(parts) > _MOST_TURNS:
            del parts[next(iter(parts))]

    return show


def latest_turn(events: Sequence[Event], invocation_id: str) -> list[Event]:
    """Return the events of an invocation after the user's last message."""
    turn: list[Event] = []
    for event in events:
        if event.invocation_id == invocation_id:
            turn = [] if event.author == "user" else [*turn, event]
    return turn


def event_json(event: Event) -> Any:  # noqa: ANN401 -- JSON
    """Return an event as ADK's own server sends it (google.adk.cli.api_server, ``/run_sse``).

    It is in camelCase, without fields that are None, without ADK's internal marks and without the
    secrets of credentials.
    """
    dumped = public_event(event).model_dump(exclude_none=True, by_alias=True, mode="json")
    return _redact_credential_secrets(dumped)


def session_json(session: Session) -> Any:  # noqa: ANN401 -- JSON
    """Return a session as ADK's own server sends it."""
    dumped = public_session(session).model_dump(exclude_none=True, by_alias=True, mode="json")
    return _redact_credential_secrets(dumped)
