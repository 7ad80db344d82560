"""One run of an agent: from a message to the agent's last word, with pauses in between."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import Field

from signoff.core.approvals.events import Event, What
from signoff.core.approvals.lifecycle import steps_diagram
from signoff.core.base.errors import IllegalMove
from signoff.core.base.model import Value

_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
"""No control characters: NUL separates the parts of index entries and of lease keys."""

WHOLE_APP = "*"
"""Stands for all tools of an app, where a run says what it is held at."""

_NAMESPACE = uuid.UUID("6c7a8b0e-6d0a-5b0e-9f6a-7369676e6f66")


class Watch(StrEnum):
    """How somebody looks on while a run takes its turns; false where nobody does."""

    NO = ""
    EVENTS = "events"
    """The events of its turns are shown as they come."""
    WORDS = "words"
    """The model is asked to stream, and what it has said so far is shown too."""


class RunState(StrEnum):
    """The state of a run."""

    QUEUED = "queued"
    """Its message waits for a worker, or a worker is at it."""
    PAUSED = "paused"
    """It waits for at least one approval."""
    ANSWERED = "answered"
    """It has answers to go on with; a worker resumes it, or will."""
    COMPLETED = "completed"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"
    """A tool was started and not seen to finish; a person has to look."""


RUN_TRANSITIONS: Mapping[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.PAUSED, RunState.COMPLETED, RunState.FAILED}),
    RunState.PAUSED: frozenset({RunState.ANSWERED}),
    RunState.ANSWERED: frozenset(
        {
            RunState.PAUSED,
            # More answers have come while it was resumed with the first.
            RunState.ANSWERED,
            RunState.COMPLETED,
            RunState.FAILED,
            RunState.IN_DOUBT,
        }
    ),
    RunState.COMPLETED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.IN_DOUBT: frozenset(),
}


class Run(Value):
    """One run of an agent.

    Attributes:
        id: ``run_`` and a random part, chosen by the submitter.
        app: The name of the agent's folder.
        user: The ADK user id: the requester.
        session: The ADK session id.
        message: The user's message.
        state: See `RUN_TRANSITIONS`.
        submitted_at: When (UTC).
        pause: How many times it has paused.
        approvals: The approvals of the present pause.
        waiting: Those that are pending.
        text: The agent's last message.
        problem: Why it failed or is in doubt, in words.
        trace: The W3C trace id (32 hex digits) that all its log lines carry.
        traceparent: The context of its submission (W3C Trace Context), "" where nothing is traced.
        watched: Whether somebody looks on, and at what.
        outside: Whether a program runs what it asks for: then nothing is started or resumed, and it
            has ended with the decision.
        held: The tool at which a freeze holds it, `WHOLE_APP` where it holds all of the app, ""
            while nothing does.
        version: Counts the commits.
    """

    id: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")
    app: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")
    user: str = Field(min_length=1, max_length=128, pattern=_PRINTABLE)
    session: str = Field(min_length=1, max_length=128, pattern=_PRINTABLE)
    message: str = Field(min_length=1, max_length=100_000)
    state: RunState = RunState.QUEUED
    submitted_at: datetime
    pause: int = 0
    approvals: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""
    trace: str = ""
    traceparent: str = ""
    watched: Watch = Watch.NO
    held: str = ""
    outside: bool = False
    version: int = 0

    @property
    def invocation(self) -> str:
        """The ADK invocation id of this run.

        It is a function of the run's id: a worker that takes the run up again continues the same
        invocation, and ADK does not append the user's message a second time.
        """
        return f"e-{uuid.uuid5(_NAMESPACE, self.id)}"

    def submitted(self) -> tuple[Event, ...]:
        """Return the event of its submission."""
        return (self.note(What.SUBMITTED, now=self.submitted_at, by=self.user),)

    def paused(self, approvals: Iterable[str], *, decided: Iterable[str] = ()) -> Self:
        """Wait for these approvals.

        Args:
            approvals: Those of the pause that nobody has decided.
            decided: Those of the same pause that are decided already.

        Raises:
            IllegalMove: There are none to wait for, or the run does not run.
        """
        ids = tuple(dict.fromkeys(approvals))
        if not ids:
            raise IllegalMove(f"Run {self.id} cannot pause without an approval to wait for.")
        return self._to(
            RunState.PAUSED, approvals=(*decided, *ids), waiting=ids, pause=self.pause + 1
        )

    def answered(self, approval: str, *, each: bool = False) -> Self:
        """Take one decided approval off the list; the last one makes the run ready to resume.

        Args:
            approval: Its id.
            each: Whether this one makes it ready although others still wait.

        Raises:
            IllegalMove: The run does not wait for it.
        """
        waiting = tuple(one for one in self.waiting if one != approval)
        if waiting == self.waiting or self.state not in {RunState.PAUSED, RunState.ANSWERED}:
            raise IllegalMove(f"Run {self.id} does not wait for approval {approval}.")
        if self.state is RunState.ANSWERED or (waiting and not each):
            return self.model_copy(update={"waiting": waiting})
        if self.outside:
            return self.model_copy(update={"state": RunState.COMPLETED, "waiting": waiting})
        return self._to(RunState.ANSWERED, waiting=waiting)

    def goes_on(self, decided: Iterable[str], waiting: Iterable[str]) -> Self:
        """Be resumed once more, with answers that came while it was resumed with others."""
        left = tuple(waiting)
        return self._to(
            RunState.ANSWERED, approvals=(*decided, *left), waiting=left, pause=self.pause + 1
        )

    def completed(
        self, text: str, *, now: datetime, why: str = ""
    ) -> tuple[Self, tuple[Event, ...]]:
        """End with the agent's last word; `why` says what it leaves behind, if anything."""
        run = self._to(RunState.COMPLETED, text=text)
        return run, (self.note(What.COMPLETED, now=now, by="worker", why=why),)

    def failed(self, problem: str, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """End with a problem."""
        run = self._to(RunState.FAILED, problem=problem)
        return run, (self.note(What.FAILED, now=now, by="worker", why=problem),)

    def in_doubt(self, problem: str) -> Self:
        """End here: a tool may or may not have run, and a person has to look."""
        return self._to(RunState.IN_DOUBT, problem=problem)

    def hold(
        self, tool: str, *, now: datetime, by: str, why: str
    ) -> tuple[Self, tuple[Event, ...]]:
        """Wait, in the same state, until a freeze is over."""
        event = self.note(What.FROZEN, now=now, by=by, why=why)
        return self.model_copy(update={"held": tool}), (event,)

    @property
    def ended(self) -> bool:
        """Whether the run has ended: nothing more will happen."""
        return not RUN_TRANSITIONS[self.state]

    def note(self, what: What, *, now: datetime, by: str, why: str = "") -> Event:
        """Return an event about this run; the run stays as it is."""
        return Event(what=what, at=now, run=self.id, by=by, why=why)

    def _to(self, state: RunState, **update: object) -> Self:
        if state not in RUN_TRANSITIONS[self.state]:
            raise IllegalMove(f"Run {self.id} is {self.state} and cannot become {state}.")
        return self.model_copy(update={"state": state, "held": "", **update})


def run_diagram() -> str:
    """Return the life of a run as a Mermaid state diagram."""
    return steps_diagram(RunState.QUEUED, RUN_TRANSITIONS)
