"""The sessions of agents of other frameworks, in the ledger's Redis.

They have the form of ADK's sessions: their events are the messages, as ADK would write them, so
that every reader of sessions can read these too. The state that a framework needs to resume is one
value in the session's state, which is replaced with each event.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field, JsonValue, ValidationError

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.sessions import (
    AppendRefusal,
    Name,
    NewEvent,
    SessionRecords,
    SessionVersion,
    States,
)
from signoff.core.approvals.run import Run
from signoff.core.base.errors import LeaseLost, RunNotFound, SessionGone
from signoff.worker.frameworks.adapter import WaitingCall
from signoff.worker.port import Fence

KEY: Final = "signoff_framework"
"""The key of that value in the state of a session."""

_ENDED: Final = 16
"""How many ended turns a session remembers, because their end may not be committed yet."""


class StoredTurn(BaseModel):
    """A turn of a run that has not ended.

    Attributes:
        pause: How many times the turn has paused.
        answered: The ids of the approvals whose answers it has been given.
        state: The state from which it resumes; None before its first pause.
    """

    pause: int = 0
    answered: list[str] = Field(default_factory=list)
    state: JsonValue = None


class StoredEnd(BaseModel):
    """The end of a run.

    Attributes:
        answered: As in `StoredTurn`.
        text: The agent's last message.
    """

    answered: list[str] = Field(default_factory=list)
    text: str = ""


class Stored(BaseModel):
    """The value in the session's state.

    Attributes:
        framework: The framework of these states.
        history: What earlier turns have added to the session.
        turns: The turns that have not ended, by run id.
        ended: The latest ended turns, by run id.
    """

    framework: str
    history: JsonValue = None
    turns: dict[str, StoredTurn] = Field(default_factory=dict)
    ended: dict[str, StoredEnd] = Field(default_factory=dict)


@dataclass(slots=True)
class LeasedSession:
    """A session whose lease is held.

    Attributes:
        name: The name of the session.
        seen: The version that was read.
        stored: The value in its state.
    """

    name: Name
    seen: SessionVersion
    stored: Stored

    def pausing(self, run: Run, state: JsonValue, answered: Sequence[str]) -> Stored:
        """Return the value after a turn has paused."""
        turn = self.stored.turns.get(run.id, StoredTurn())
        after = StoredTurn(pause=turn.pause + 1, answered=list(answered), state=state)
        return self._with(turns={**self.stored.turns, run.id: after})

    def ending(self, run: Run, history: JsonValue, answered: Sequence[str], text: str) -> Stored:
        """Return the value after a turn has ended."""
        turns = {id_: one for id_, one in self.stored.turns.items() if id_ != run.id}
        ended = {**self.stored.ended, run.id: StoredEnd(answered=list(answered), text=text)}
        latest = dict(list(ended.items())[-_ENDED:])
        return self._with(history=history, turns=turns, ended=latest)

    def forget(self, run_id: str) -> None:
        """Remove the turn of a run from the value; the next write stores that."""
        turns = {id_: one for id_, one in self.stored.turns.items() if id_ != run_id}
        self.stored = self._with(turns=turns)

    def begun(self, run: Run) -> Stored:
        """Return the value after the user's message has arrived."""
        return self._with(turns={**self.stored.turns, run.id: StoredTurn()})

    def _with(self, **update: Any) -> Stored:  # noqa: ANN401 -- the fields of the model
        return self.stored.model_copy(update=update)


@dataclass(frozen=True, slots=True)
class Said:
    """The content of an event.

    Attributes:
        author: ``user``, or the agent.
        text: The message.
        calls: The calls that wait.
    """

    author: str
    text: str = ""
    calls: Sequence[WaitingCall] = ()

    def event(self, run: Run, event_id: str, at: datetime) -> str:
        """Return the event in the form in which ADK writes it."""
        parts: list[dict[str, object]] = [{"text": self.text}] if self.text else []
        parts += [
            {"function_call": {"id": one.id, "name": one.tool, "args": one.args}}
            for one in self.calls
        ]
        role = "user" if self.author == "user" else "model"
        event = {
            "id": event_id,
            "invocation_id": run.invocation,
            "author": self.author,
            "timestamp": at.timestamp(),
            "content": {"role": role, "parts": parts},
        }
        return json.dumps(event)


@dataclass(slots=True)
class FrameworkSessions:
    """Reads and writes these values."""

    ledger: Ledger
    _records: SessionRecords = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._records = SessionRecords(self.ledger.store)

    async def open(self, run: Run, framework: str) -> LeasedSession:
        """Return the session of a run; create it if it does not exist.

        Raises:
            SessionGone: It belongs to another framework, or cannot be read.
            LedgerUnavailable: Redis cannot be reached.
        """
        name = Name(run.app, run.user, run.session)
        found = await self._records.read(name, most=0)
        if found is None:
            at = (await self.ledger.now()).timestamp()
            found = await self._records.make(name, States(), at=at)
        if found is None:
            # Another process has created it meanwhile.
            found = await self._records.read(name, most=0)
        if found is None:
            raise SessionGone(f"Session {run.session} of {run.user} in {run.app} is gone.")
        text = found.states.session.get(KEY)
        if text is None and found.count:
            raise SessionGone(
                f"Session {run.session} of {run.user} in {run.app} was begun by an agent of "
                "another framework. Begin another session."
            )
        try:
            stored = Stored.model_validate_json(text) if text else Stored(framework=framework)
        except ValidationError as error:
            raise SessionGone(
                f"What session {run.session} of {run.user} in {run.app} has stored cannot be read. "
                "Submit the run again in another session."
            ) from error
        if stored.framework != framework:
            raise SessionGone(
                f"Session {run.session} of {run.user} in {run.app} was begun with "
                f"{stored.framework}, and its agent is one of {framework} now. Begin another "
                "session."
            )
        return LeasedSession(name, found.seen, stored)

    async def forget_ended(self, held: LeasedSession, run: Run) -> None:
        """Remove the turns of other runs that have ended without a last message."""
        for other in held.stored.turns.keys() - {run.id}:
            try:
                ended = (await self.ledger.run(other)).ended
            except RunNotFound:
                ended = True
            if ended:
                held.forget(other)

    async def write(
        self, held: LeasedSession, run: Run, after: Stored, said: Said, fence: Fence
    ) -> None:
        """Append an event to a session, and replace the value.

        Raises:
            LeaseLost: Another worker runs the session by now, or has written to it.
            SessionGone: It was deleted.
            LedgerUnavailable: Redis cannot be reached; the event may have been stored.
        """
        await self.ledger.commit(fence(Change()))
        now, event_id = await self.ledger.now(), str(uuid.uuid4())
        delta = States(session={KEY: json.dumps(after.model_dump(mode="json"))})
        event = NewEvent(event_id, said.event(run, event_id, now), now.timestamp(), delta)
        found = await self._records.append(held.name, held.seen, event)
        if found is AppendRefusal.GONE:
            raise SessionGone(f"Session {run.session} of {run.user} in {run.app} was deleted.")
        if isinstance(found, AppendRefusal):
            raise LeaseLost(f"Session {run.session} was changed by somebody else.")
        held.seen, held.stored = found.seen, after
