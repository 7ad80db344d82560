"""What the session of a remote agent says about one run, read the same by whoever looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event

from signoff.core.approval import Approval
from signoff.core.errors import RemoteError
from signoff.core.run import Run
from signoff.worker.adk.history import (
    Invocation,
    answered_ids,
    confirmations,
    last_text,
    unanswered,
)
from signoff.worker.adk.mend import missing_events
from signoff.worker.adk_remote.wire import MARK, Json, read_events, read_state


@dataclass(frozen=True, slots=True)
class View:
    """A session as a run sees it.

    Attributes:
        events: All of its events.
        state: Its state.
        said: The event of the run's message, None if the message is not in the session.
        mine: The events of the run's invocations: that of its message, and those of the answers
            to what it asked for. Python goes on in the first one, others begin a new one.
        half: Whether the server died while it wrote a pause.
    """

    events: tuple[Event, ...]
    state: dict[str, Any]
    said: Event | None
    mine: tuple[Event, ...]
    half: bool

    @property
    def standing(self) -> Invocation:
        """Where the run stands, as the runtime in this process would read it."""
        answered = answered_ids(self.mine)
        asked = [one for event in self.mine for one in confirmations(event)]
        waiting = tuple(one for one in asked if one.id not in answered)
        last = self.mine[-1] if self.mine else None
        spoken = last is not None and last.author != "user" and last.is_final_response()
        return Invocation(
            started=self.said is not None,
            waiting=() if self.half else waiting,
            complete=not self.half and bool(waiting or spoken),
            text=last_text(self.mine),
            stuck_on=tuple(unanswered(self.mine)),
        )

    def answers_to(self, approval: Approval) -> list[tuple[int, dict[str, Any]]]:
        """Return where an approval was answered in the session, each with what was said."""
        return [
            (place, response.response or {})
            for place, event in enumerate(self.events)
            if event.author == "user"
            for response in event.get_function_responses()
            if response.id == approval.origin.confirmation
        ]

    def result_of(self, approval: Approval) -> dict[str, Any] | None:
        """Return what the tool gave after an answer; what stood there before is a placeholder."""
        answers = self.answers_to(approval)
        later = self.events[answers[0][0] + 1 :] if answers else ()
        for event in later:
            if event.author == "user":
                continue
            for response in event.get_function_responses():
                if response.id == approval.call.id:
                    return response.response or {}
        return None

    def last_answer(self, approvals: Iterable[Approval]) -> int:
        """Return where the last answer to one of these stands, -1 where there is none."""
        return max((place for one in approvals for place, _ in self.answers_to(one)), default=-1)

    def last_words(self, approvals: Iterable[Approval]) -> str:
        """Return what the agent has said after the last of the answers."""
        return last_text(self.events[self.last_answer(approvals) + 1 :])


def read_view(
    session: Json,
    run: Run,
    *,
    python: bool,
    said_now: bool = False,
    invocations: Iterable[str] = (),
) -> View:
    """Read what a session says about a run.

    Args:
        session: As the server sends it.
        run: The run.
        python: Whether the server is written in Python. It writes a pause as two events, and may
            die between them.
        said_now: Whether we have just said the message, so that it is there.
        invocations: Where the run is known to have asked; looked for by its message otherwise.

    Raises:
        RemoteError: The session cannot be read, or does not tell whether the message was said.
    """
    events, state = read_events(session), read_state(session)
    ids = {one for one in invocations if one}
    said = None
    if not ids:
        said = _said(events, state, run, keeps_marks=python, said_now=said_now)
        ids = {said.invocation_id} if said is not None else set()
    mine = _of_run(events, ids)
    half = python and any(missing_events(mine, one) for one in ids)
    return View(tuple(events), state, said, tuple(mine), half)


def _said(
    events: Sequence[Event], state: dict[str, Any], run: Run, *, keeps_marks: bool, said_now: bool
) -> Event | None:
    """Find the message of a run by the mark that was sent with it."""
    texts = [event for event in events if event.author == "user" and _text(event)]
    for event in texts:
        if event.actions.state_delta.get(MARK) == run.id:
            return event
    same = [event for event in texts if _text(event) == run.message]
    if same and (said_now or state.get(MARK) == run.id):
        return same[-1]
    if keeps_marks or MARK in state or not same:
        return None
    raise RemoteError(
        f"Session {run.session} has the words of run {run.id} already, and the server has kept no "
        "session state with them: whether they were said for this run cannot be told. Submit it "
        "with a new session."
    )


def _of_run(events: Sequence[Event], ids: set[str]) -> list[Event]:
    """Return the events of these invocations, and of those that answer what was asked in them."""
    while True:
        mine = [event for event in events if event.invocation_id in ids]
        asked = {one.id for event in mine for one in confirmations(event)}
        more = {event.invocation_id for event in events if asked & answered_ids([event])}
        if more <= ids:
            return mine
        ids = ids | more


def _text(event: Event) -> str:
    parts = event.content.parts if event.content else None
    return "".join(part.text for part in parts or [] if part.text)


Settled = Callable[[View], bool]
"""Whether a view shows all that one waits for."""
