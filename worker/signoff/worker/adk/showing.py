"""What is shown of a turn, as it goes, to those who look on: ADK's events in ADK's wire form."""

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
"""Takes each event of a turn; it never raises, because the turn is more than its onlookers."""

WireSink = Callable[[Run, dict[str, Any]], Awaitable[None]]
"""The same for events in ADK's wire form."""

_MOST_TURNS: Final = 1_000

MOST_PARTS: Final = 5_000
"""Partial events of one turn that are shown; half of what a stream holds, see `live`."""


async def show_nobody(run: Run, event: object) -> None:
    """Take an event and show it to nobody."""


def shown_through(ledger: Ledger) -> EventSink:
    """Return a sink that shows the events of watched runs through the ledger's Redis."""
    show_json = json_shown_through(ledger)

    async def show(run: Run, event: Event) -> None:
        if run.watched:
            await show_json(run, event_json(event))

    return show


def json_shown_through(ledger: Ledger) -> WireSink:
    """Return a sink for events in wire form.

    What a model is still saying comes in many partial events. Each is lost without harm, because
    the whole event follows: they do not make a turn wait for a Redis that is away, and those of an
    endless one do not push whole events out of the stream.
    """
    parts: dict[tuple[str, int], int] = {}

    async def show(run: Run, event: dict[str, Any]) -> None:
        if not run.watched:
            return
        turn, partial = (run.id, run.pause), event.get("partial") is True
        if partial and parts.get(turn, 0) >= MOST_PARTS:
            return
        name = "" if partial else str(event.get("id") or "")
        shown = await live.show(ledger, run, name, json.dumps(event))
        if not shown:
            parts[turn] = MOST_PARTS
        elif partial:
            parts[turn] = parts.get(turn, 0) + 1
        if len(parts) > _MOST_TURNS:
            del parts[next(iter(parts))]

    return show


def latest_turn(events: Sequence[Event], invocation_id: str) -> list[Event]:
    """Return what an agent said since the user last spoke in this invocation."""
    turn: list[Event] = []
    for event in events:
        if event.invocation_id == invocation_id:
            turn = [] if event.author == "user" else [*turn, event]
    return turn


def event_json(event: Event) -> Any:  # noqa: ANN401 -- JSON
    """Return an event as ADK's own server sends it (google.adk.cli.api_server, ``/run_sse``).

    That is in camelCase, without what is None, without ADK's internal marks and without the
    secrets of credentials.
    """
    dumped = public_event(event).model_dump(exclude_none=True, by_alias=True, mode="json")
    return _redact_credential_secrets(dumped)


def session_json(session: Session) -> Any:  # noqa: ANN401 -- JSON
    """Return a session as ADK's own server sends it."""
    dumped = public_session(session).model_dump(exclude_none=True, by_alias=True, mode="json")
    return _redact_credential_secrets(dumped)
