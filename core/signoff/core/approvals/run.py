"""One run of an agent, from the user's message to the agent's last message, with its pauses."""

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
"""The value of `Run.held` that stands for all tools of an app."""

_NAMESPACE = uuid.UUID("6c7a8b0e-6d0a-5b0e-9f6a-7369676e6f66")


class Watch(StrEnum):
    """How a person watches a run; false if nobody does."""

    NO = ""
    EVENTS = "events"
    """The person sees the events of the run as they come."""
    WORDS = "words"
    """The model streams its text, and the person sees the partial text too."""


class RunState(StrEnum):
    """The state of a run."""

    QUEUED = "queued"
    """Its message waits for a worker, or a worker is running it."""
    PAUSED = "paused"
    """It waits for at least one approval."""
    ANSWERED = "answered"
    """It has answers to continue with; it waits for a worker, or a worker is resuming it."""
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
            # More answers came while it was resumed with the first ones.
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
        approvals: The ids of the approvals of the present pause.
        waiting: The ids of those that are pending.
        text: The agent's last message.
        problem: Why it failed or is in doubt, in words.
        trace: The W3C trace id (32 hex digits) in all its log lines.
        traceparent: The trace context of its submission (W3C Trace Context), "" without tracing.
        watched: Whether and how a person watches it.
        outside: Whether a program runs the call. Then Signoff starts and resumes nothing, and the
            run ends with the decision.
        held: The tool at which a freeze holds it, `WHOLE_APP` if the freeze is for the whole app,
            "" if it is not held.
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

        It is derived from the run's id: a worker that takes over the run continues the same
        invocation, and ADK does not append the user's message a second time.
        """
        return f"e-{uuid.uuid5(_NAMESPACE, self.id)}"

    def submitted(self) -> tuple[Event, ...]:
        """Return the event of its submission."""
        return (self.note(What.SUBMITTED, now=self.submitted_at, by=self.user),)

    def paused(self, approvals: Iterable[str], *, decided: Iterable[str] = ()) -> Self:
        """Pause until these approvals are decided.

        Args:
            approvals: The ids of the pending approvals of the pause.
            decided: The ids of approvals of the same pause that are decided already.

        Raises:
            IllegalMove: There are no pending approvals, or the run is not running.
        """
        ids = tuple(dict.fromkeys(approvals))
        if not ids:
            raise IllegalMove(f"Run {self.id} cannot pause without an approval to wait for.")
        return self._to(
            RunState.PAUSED, approvals=(*decided, *ids), waiting=ids, pause=self.pause + 1
        )

    def answered(self, approval: str, *, each: bool = False) -> Self:
        """Record that an approval is decided; after the last one the run is ready to resume.

        Args:
            approval: The id of the approval.
            each: Whether the run is ready to resume even if other approvals are still pending.

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

    def answered_again(self, decided: Iterable[str], waiting: Iterable[str]) -> Self:
        """Become ready to resume again, with answers that came while the run was resumed."""
        left = tuple(waiting)
        return self._to(
            RunState.ANSWERED, approvals=(*decided, *left), waiting=left, pause=self.pause + 1
        )

    def completed(
        self, text: str, *, now: datetime, why: str = ""
    ) -> tuple[Self, tuple[Event, ...]]:
        """End with the agent's last message; `why` says what is left unfinished, if anything."""
        run = self._to(RunState.COMPLETED, text=text)
        return run, (self.note(What.COMPLETED, now=now, by="worker", why=why),)

    def failed(self, problem: str, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """End with a problem."""
        run = self._to(RunState.FAILED, problem=problem)
        return run, (self.note(What.FAILED, now=now, by="worker", why=problem),)

    def in_doubt(self, problem: str) -> Self:
        """End in doubt: a tool may or may not have run, and a person has to look."""
        return self._to(RunState.IN_DOUBT, problem=problem)

    def hold(
        self, tool: str, *, now: datetime, by: str, why: str
    ) -> tuple[Self, tuple[Event, ...]]:
        """Wait, in the same state, until a freeze is over."""
        event = self.note(What.FROZEN, now=now, by=by, why=why)
        return self.model_copy(update={"held": tool}), (event,)

    @property
    def under_way(self) -> bool:
        """Whether a worker runs a turn of it, or is about to."""
        return self.state in {RunState.QUEUED, RunState.ANSWERED}

    @property
    def ended(self) -> bool:
        """Whether the run has ended: nothing more will happen."""
        return not RUN_TRANSITIONS[self.state]

    def note(self, what: What, *, now: datetime, by: str, why: str = "") -> Event:
        """Return an event about this run. The run does not change."""
        return Event(what=what, at=now, run=self.id, by=by, why=why)

    def _to(self, state: RunState, **update: object) -> Self:
        if state not in RUN_TRANSITIONS[self.state]:
            raise IllegalMove(f"Run {self.id} is {self.state} and cannot become {state}.")
        return self.model_copy(update={"state": state, "held": "", **update})


def run_diagram() -> str:
    """Return the states of a run as a Mermaid state diagram."""
    return steps_diagram(RunState.QUEUED, RUN_TRANSITIONS)
