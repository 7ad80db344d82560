"""Journals of the calls that code makes, for the worker that resumes the turn of a dead worker.

The guard protects approved calls. But code inside a tool or a callback also makes calls without an
approval, and a resumed turn runs that code from its beginning. So each call is written to a journal
before it is made, and its result is added afterwards. The next worker gives the code the recorded
result instead of making the call again. A call that only reads is written once, with its result.

This requires that the same code runs again. ADK repeats the model's calls of a resumable app from
the session. In other apps ADK would call the model again, which may answer differently, so the
guard repeats the model's calls from the session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from google.adk.agents.callback_context import CallbackContext
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.suspended.journals import Journal, name_of
from signoff.core.approvals.run import Run
from signoff.worker.port import Fence

_AGAIN: Final = "-again"
_CALL: Final = "call"

_Session = tuple[str, str, str]


@dataclass(slots=True)
class _Turn:
    """A running turn: its fence, its journals, and how often each callback has run."""

    fence: Fence
    open: list[Journal] = field(default_factory=list)
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)


class Journals:
    """The journals of the turns that run in this process.

    Args:
        ledger: Stores the journals.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._turns: dict[_Session, _Turn] = {}

    @contextmanager
    def of(self, run: Run, fence: Fence) -> Iterator[None]:
        """Keep journals for the code of a run inside the `with` block."""
        key = (run.app, run.user, run.session)
        turn = self._turns[key] = _Turn(fence)
        try:
            yield
        finally:
            # A turn that has lost its lease may end after the next one has begun.
            if self._turns.get(key) is turn:
                del self._turns[key]

    async def drop(self, run: Run) -> None:
        """Delete the journals of a run; call this once the session has the results.

        Raises:
            LeaseLost, LedgerUnavailable: See `Ledger.commit`.
        """
        turn = self._turns.get((run.app, run.user, run.session))
        while turn and turn.open:
            await turn.open.pop().drop()

    def of_call(self, context: CallbackContext, call_id: str, stops: int) -> Journal | None:
        """Return the journal of one stretch of a tool's code; None outside of our workers.

        Args:
            context: The context of the tool call.
            call_id: The id of the call.
            stops: How often the code has stopped before.
        """
        return self._open(context, _CALL, first_id(call_id), str(stops))

    def of_callback(self, context: CallbackContext, *what: str) -> Journal | None:
        """Return the journal of one run of a callback; None outside of our workers.

        Args:
            context: The context of the callback.
            what: Identifies this run of the callback; runs with the same identity are numbered
                from the beginning of the turn.
        """
        turn = self._turns.get(_session_of(context))
        if turn is None:
            return None
        turn.counts[what] += 1
        return self._open(context, *what, str(turn.counts[what]))

    async def repeated_response(self, context: CallbackContext) -> LlmResponse | None:
        """Return the model's last response again if a worker died in code that it called.

        Its calls get new ids, because the session already has the old ones.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        if _session_of(context) not in self._turns:
            return None
        event = _left_open(context)
        calls = event.get_function_calls() if event is not None else []
        for call in calls:
            journal = self.of_call(context, call.id or "", 0)
            if journal is not None and await journal.read():
                break
        else:
            return None
        return LlmResponse(
            content=types.Content(role="model", parts=[with_new_id(part) for part in _parts(event)])
        )

    def _open(self, context: CallbackContext, *stretch: str) -> Journal | None:
        key = _session_of(context)
        turn = self._turns.get(key)
        if turn is None:
            return None
        name = name_of(*key, context.invocation_id, *stretch)
        journal = next((one for one in turn.open if one.name == name), None)
        if journal is None:
            journal = Journal(self._ledger, name, turn.fence)
            turn.open.append(journal)
        return journal


def first_id(call_id: str) -> str:
    """Return the original id of a model's call that may have been repeated."""
    base, again, number = call_id.rpartition(_AGAIN)
    return base if again and number.isdecimal() else call_id


def _session_of(context: CallbackContext) -> _Session:
    session = context.session
    return (session.app_name, session.user_id, session.id)


def own_events(context: CallbackContext) -> list[Event]:
    """Return the events of an agent in this invocation so far, in its own branch."""
    branch = context._invocation_context.branch  # noqa: SLF001 -- ADK has no public access to the branch
    return [
        event
        for event in context.session.events
        if event.invocation_id == context.invocation_id
        and event.author == context.agent_name
        and event.branch == branch
        and event.content is not None
        and not event.partial
    ]


def _left_open(context: CallbackContext) -> Event | None:
    """Return the last event of an agent if it has calls, all of them without a result."""
    own = own_events(context)
    if not own:
        return None
    ids = {call.id for call in own[-1].get_function_calls()}
    answered = {
        response.id
        for event in context.session.events
        for response in event.get_function_responses()
    }
    return own[-1] if ids and not ids & answered else None


def _parts(event: Event | None) -> list[types.Part]:
    return event.content.parts or [] if event is not None and event.content else []


def with_new_id(part: types.Part) -> types.Part:
    """Return a part whose call has a new id, because the session already has the old id."""
    if part.function_call is None:
        return part
    old = part.function_call.id or ""
    count = int(old.rpartition(_AGAIN)[2]) if old != first_id(old) else 0
    made = f"{first_id(old)}{_AGAIN}{count + 1}"
    return part.model_copy(
        update={"function_call": part.function_call.model_copy(update={"id": made})}
    )
