"""Reads the state of one run from the session of a remote agent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.run import Run
from signoff.core.base.errors import RemoteError
from signoff.worker.adk.composites import Remainder, ends_with_word, has_spoken, is_checkpoint
from signoff.worker.adk.guard.actual import about_code
from signoff.worker.adk.history import (
    Invocation,
    answered_ids,
    asking_event,
    calls_of,
    confirmations,
    last_words,
    said_before,
    unanswered,
)
from signoff.worker.adk.questions import (
    NODE,
    RESERVED,
    is_node,
    is_request,
    request_of,
    requests,
    waiting,
)
from signoff.worker.adk.repair import missing_events
from signoff.worker.adk_remote.wire import (
    MARK,
    TOLD,
    Json,
    aborted_calls,
    ordered_agents,
    read_events,
    read_state,
)


@dataclass(frozen=True, slots=True)
class RunView:
    """A session as a run sees it.

    Attributes:
        events: All of its events.
        said: The event of the run's message; None if the message is not in the session.
        mine: The events of the run's invocations: the invocation of its message, and those of the
            answers to its requests. A Python server resumes the first invocation; other servers
            begin a new one with each answer.
        half: Whether the server died while it wrote a pause.
        told: The invocations in which the agent got the reasons of refusals, by the mark of the
            message.
        app: Our name for the app.
        where: The server's names for the app, the user and the session.
        rules: The long-running tools that wait for an approval.
        ordered: Whether the root runs its agents in an order of its own.
        aborted: The names of the calls of the latest turn that the server has answered itself,
            because the connection broke before they had a result. ADK never makes them again: the
            model is told that they were aborted, and nobody is asked about them.
    """

    events: tuple[Event, ...]
    said: Event | None
    mine: tuple[Event, ...]
    half: bool
    told: Mapping[str, str]
    app: str
    where: tuple[str, str, str]
    rules: tuple[LongRunning, ...] = ()
    ordered: bool = False
    aborted: tuple[str, ...] = ()

    @property
    def invocation(self) -> Invocation:
        """The state of the run, as the in-process runtime would read it."""
        answered = answered_ids(self.mine)
        asked = [one for event in self.mine for one in confirmations(event)]
        confirming = tuple(about_code(one, self.where) for one in asked if one.id not in answered)
        ids = {event.invocation_id for event in self.mine}
        asked_for, left_open = waiting(self.events, ids, self.app, self.rules)
        return Invocation(
            started=self.said is not None,
            waiting=() if self.half else confirming,
            text=last_words(self.mine),
            stuck_on=tuple(unanswered(self.mine)),
            requests=() if self.half else tuple(asked_for),
            left_open=tuple(left_open),
            said=said_before(self.mine, calls_of(confirming, asked_for)),
        )

    @property
    def remainder(self) -> Remainder:
        """The remainder of the turn; the events show the kind of root agent."""
        agents = [event for event in self.mine if event.author != "user"]
        if self.half or not agents:
            return Remainder.RESUMABLE
        paused = self.invocation.paused
        if not self.ordered:
            over = paused or (ends_with_word(self.mine) and not self.is_graph)
            return Remainder.NOTHING if over else Remainder.RESUMABLE
        root = [one for one in agents if one.author == agents[0].author and is_checkpoint(one)]
        if is_checkpoint(agents[0]):
            over = paused or bool(root[-1].actions.end_of_agent)
            return Remainder.NOTHING if over else Remainder.RESUMABLE
        over = paused and not any(event.branch for event in agents)
        return Remainder.NOTHING if over else Remainder.LOST

    @property
    def is_graph(self) -> bool:
        """Whether the events come from a workflow, whose last message does not end the turn."""
        return any(event.output is not None for event in self.mine)

    def answers_to(self, approval: Approval) -> list[tuple[int, dict[str, Any]]]:
        """Return the answers to an approval in the session, each with the index of its event."""
        if is_request(approval):
            request = request_of(self.events, approval)
            return list(request.answers) if request is not None else []
        return [
            (place, response.response or {})
            for place, event in enumerate(self.events)
            if event.author == "user"
            for response in event.get_function_responses()
            if response.id == approval.origin.confirmation
        ]

    def result_of(self, approval: Approval) -> dict[str, Any] | None:
        """Return the result of the tool after an answer; a result before it is a placeholder.

        A function that is a node of a workflow has an output or an error instead.
        """
        answers = self.answers_to(approval)
        later = self.events[answers[0][0] + 1 :] if answers else ()
        if is_node(approval):
            return _of_node(later, approval)
        for event in later:
            if event.author == "user":
                continue
            for response in event.get_function_responses():
                if response.id == approval.call.id:
                    return response.response or {}
        return None

    def last_answer(self, approvals: Iterable[Approval]) -> int:
        """Return the index of the last answer to one of these approvals; -1 if there is none."""
        return max((place for one in approvals for place, _ in self.answers_to(one)), default=-1)

    def asking(self, approval: Approval) -> Event | None:
        """Return the event that asks for an approval; None if it is not in the session."""
        if not is_request(approval):
            return asking_event(self.events, approval.origin.confirmation)
        request = request_of(self.events, approval)
        return self.events[request.place] if request is not None else None

    def have_spoken(self, approvals: Iterable[Approval]) -> bool:
        """Return whether each agent that has asked ended with a message after the answers."""
        later = self.events[self.last_answer(approvals) + 1 :]
        asking = [self.asking(one) for one in approvals]
        return all(
            one is not None and has_spoken(later, one.author or "", one.branch) for one in asking
        )


def is_over(view: RunView) -> bool:
    """Return whether the session shows that the turn has ended."""
    return view.remainder is Remainder.NOTHING


def read_view(
    session: Json,
    run: Run,
    *,
    python: bool,
    just_sent: bool,
    invocations: Iterable[str],
    rules: Iterable[LongRunning],
) -> RunView:
    """Read the state of a run from a session.

    Args:
        session: The session, as the server sends it.
        run: The run.
        python: Whether the server is written in Python. It writes a pause as two events, and may
            die between them.
        just_sent: Whether we have just sent the message, so that it must be in the session.
        invocations: The invocations in which the run has asked, if they are known. Without them,
            the run is found by its message.
        rules: The long-running tools that wait for an approval.

    Raises:
        RemoteError: The session cannot be read, or does not show whether the message was sent.
    """
    events, state = read_events(session), read_state(session)
    ids = {one for one in invocations if one}
    said = None
    if not ids:
        said = _message_of(events, state, run, keeps_state=python, just_sent=just_sent)
        ids = {said.invocation_id} if said is not None else set()
    marks = {
        # If a tool sets this key, the event's author is the agent and not the user.
        str(event.actions.state_delta.get(TOLD)): event.invocation_id
        for event in events
        if event.author == "user"
    }
    told = {mark: one for mark, one in marks.items() if mark.startswith(told_of(run))}
    mine = _of_run(events, ids | set(told.values()))
    half = python and any(missing_events(mine, one) for one in ids)
    return RunView(
        events=tuple(events),
        said=said,
        mine=tuple(mine),
        half=half,
        told=told,
        app=run.app,
        where=(str(session.get("appName") or run.app), run.user, run.session),
        rules=tuple(rules),
        ordered=not ordered_agents(session).isdisjoint(event.id for event in mine),
        aborted=_aborted(mine, aborted_calls(session)),
    )


def told_of(run: Run, pause: int | None = None) -> str:
    """Return the mark of the message about a pause's refusals; without a pause, its prefix."""
    return f"{run.id}/{'' if pause is None else pause}"


def _aborted(mine: Sequence[Event], sealed: Collection[str]) -> tuple[str, ...]:
    """Return the names of the sealed calls of the latest turn.

    ADK seals every call that has no result, also one that an earlier turn has left waiting, and the
    question about a call that waits. Both can still be answered.
    """
    last = max((place for place, event in enumerate(mine) if event.author == "user"), default=0)
    return tuple(
        call.name or ""
        for event in mine[last:]
        for call in event.get_function_calls()
        if call.id in sealed and not (call.name or "").startswith(RESERVED)
    )


def _of_node(later: Sequence[Event], approval: Approval) -> dict[str, Any] | None:
    """Return the output or the error of a node; None if it has returned nothing."""
    path = approval.origin.confirmation.removeprefix(NODE)
    for event in later:
        if event.node_info.path != path:
            continue
        if event.error_code:
            return {"error": f"{event.error_code}: {event.error_message}"}
        if event.output is not None:
            return {"output": event.output}
    return None


def _message_of(
    events: Sequence[Event], state: dict[str, Any], run: Run, *, keeps_state: bool, just_sent: bool
) -> Event | None:
    """Find the message of a run by the mark that was sent with it, or else by its text."""
    texts = [event for event in events if event.author == "user" and _text(event)]
    for event in texts:
        if event.actions.state_delta.get(MARK) == run.id:
            return event
    same = [event for event in texts if _text(event) == run.message]
    if same and (just_sent or state.get(MARK) == run.id):
        return same[-1]
    if keeps_state or MARK in state or not same:
        return None
    raise RemoteError(
        f"Session {run.session} has the words of run {run.id} already, and the server has kept no "
        "session state with them: whether they were said for this run cannot be told. Submit it "
        "with a new session."
    )


def _of_run(events: Sequence[Event], ids: set[str]) -> list[Event]:
    """Return the events of these invocations, and of those with answers to their requests."""
    questions = requests(events)
    while True:
        mine = [event for event in events if event.invocation_id in ids]
        asked = {one.id for event in mine for one in confirmations(event)}
        more = {event.invocation_id for event in events if asked & answered_ids([event])}
        more |= {
            events[place].invocation_id
            for one in questions
            if one.invocation in ids
            for place, _ in one.answers
        }
        if more <= ids:
            return mine
        ids = ids | more


def _text(event: Event) -> str:
    parts = event.content.parts if event.content else None
    return "".join(part.text for part in parts or [] if part.text)


Settled = Callable[[RunView], bool]
"""Returns whether a view shows everything that the caller waits for."""
