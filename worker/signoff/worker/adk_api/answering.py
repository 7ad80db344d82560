"""Answers that come through the API: finds their approvals, checks and commits them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import structlog
from pydantic import JsonValue

from signoff.broker.decisions import Decisions, Extras, Outcome, Refused
from signoff.broker.ledger.follow import follow, latest
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.masking import masked
from signoff.core.approvals.moves import Actor, Move
from signoff.core.approvals.parts import Origin, approval_id
from signoff.core.approvals.run import Run, RunState, Watch
from signoff.core.base.errors import (
    AlreadyDecided,
    ApprovalNotFound,
    DecisionRefused,
    NotAnApprover,
    NotShownInFull,
)
from signoff.core.cards.card import topic
from signoff.core.directory.people import Person
from signoff.worker.adk_api.bodies import RunRequest, SentAnswer
from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import Problem, misformed, problem_of, session_busy
from signoff.worker.adk_api.stated import Stated, stated_in

log = structlog.get_logger(__name__)

CHANNEL: Final = "api"

Found = TypeVar("Found")

_PATIENCE: Final = 20.0

_NEXT: Final = {Handoff.IN_DOUBT: "again", Handoff.EXPIRED: "expired", Handoff.VOID: "expired"}
"""The counter in `Origin` that the next question under an id increments, by the last handoff."""


async def _no_event(approval: Approval) -> str:
    """Return that the event is not known: an answer cannot name it."""
    del approval
    return ""


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """The turn that a request starts, or that starts once all calls of the pause are answered.

    Attributes:
        run: The run.
        pause: How many times it had paused before that turn.
        waiting: How many answers it still waits for.
        answered: The ids of the approvals that the request has answered.
    """

    run: str
    pause: int
    waiting: int = 0
    answered: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AnswerHandler:
    """Takes answers.

    Attributes:
        decisions: Makes the moves.
        watching: The ledger on separate connections, which may be held while we wait.
        event_of: Returns the id of the event that asks for an approval; "" if it is not there.
        patience: How long an answer waits until its call is an approval, and then until its
            approvers are resolved, in seconds.
    """

    decisions: Decisions
    watching: Ledger
    event_of: Callable[[Approval], Awaitable[str]] = _no_event
    patience: float = _PATIENCE

    async def take(
        self,
        caller: Caller,
        request: RunRequest,
        answers: Sequence[SentAnswer],
        watched: Watch = Watch.EVENTS,
    ) -> AnsweredTurn:
        """Commit the answers of one message, as the caller's person.

        All answers are checked before the first is committed, so that nothing is committed if one
        of them is refused. Each is committed separately: if somebody else answers at the same
        moment, the answers committed before that stay.

        Raises:
            Problem: 404 for a call that does not exist, or that this caller may not see; 403 for a
                person who may not answer; 409 for a call that is already answered, or whose turn
                does not pause; 422 for values that do not fit; 503 while the approvers are not
                resolved yet.
            PayloadError: The values do not fit; nothing was committed.
            LedgerUnavailable: Redis cannot be reached.
        """
        found = [await self._find(caller, request, one) for one in answers]
        person = _person(caller, found)
        runs = {one.origin.run for one in found}
        if len(runs) > 1:
            raise misformed("The calls that this message answers belong to different runs.")
        wanted = found[0].origin.invocation
        if request.invocation_id not in {None, "", wanted}:
            raise misformed(f"invocationId is that of another turn; this call belongs to {wanted}.")
        found = [await self._routed(one) for one in found]
        pause = (await self.decisions.ledger.run(found[0].origin.run)).pause
        actor = Actor(person, CHANNEL, _proof(caller))
        requested = [
            (one, _move(stated_in(one, given))) for one, given in zip(found, answers, strict=True)
        ]
        for approval, move in requested:
            if isinstance(move, moves.Approve):
                event = request.function_call_event_id or ""
                await self._require_seen(approval, event, actor)
            _require(await self.decisions.check(approval.id, move, actor))
        for approval, move in requested:
            extras = Extras(watched=watched)
            outcome = await self.decisions.take(approval.id, move, actor, extras)
            after = _require(outcome)
            log.info(
                "answer.recorded",
                approval=after.id,
                run=after.origin.run,
                person=person.id,
                channel=CHANNEL,
                caller=caller.name,
                state=after.state.value,
            )
        run = await self.decisions.ledger.run(found[0].origin.run)
        still = run.pause == pause and run.state is RunState.PAUSED
        answered = frozenset(one.id for one in found)
        return AnsweredTurn(run.id, pause, len(run.waiting) if still else 0, answered)

    async def _require_seen(self, approval: Approval, event: str, actor: Actor) -> None:
        """Refuse a yes that may be the answer to an earlier question under the same id.

        Args:
            approval: The approval of the latest question.
            event: The id of the event that asks, as the client says; ADK's own page sends it.
            actor: Who says yes.

        Raises:
            Problem: 403 if it may be.
        """
        if await self._is_other_question(approval):
            _require(await self._refused_unseen(approval, actor))
        pending = approval.state is State.PENDING
        if pending and approval.origin.nth and not await self._is_meant(approval, event):
            _require(await self._refused_unclear(approval, actor))

    async def _is_meant(self, approval: Approval, event: str) -> bool:
        """Return whether an answer to a node that has asked before is for its latest question.

        In another run, the client has sent a message since the earlier answer.
        """
        if event:
            return event == await self.event_of(approval)
        earlier = approval.origin.model_copy(
            update={"nth": approval.origin.nth - 1, "again": 0, "expired": 0}
        )
        try:
            before = await self.decisions.ledger.approval(approval_id(earlier))
        except ApprovalNotFound:
            return True
        return before.origin.run != approval.origin.run

    async def _is_other_question(self, approval: Approval) -> bool:
        """Return whether a client that sees the agent's call does not see what is asked about it.

        A call in doubt, or one that has changed, is asked about again under the same id: a yes may
        be the first one, which a client repeats because it has lost the stream.
        """
        first = approval
        while first.supersedes:
            try:
                before = await self.decisions.ledger.approval(first.supersedes)
            except ApprovalNotFound:
                return True
            if before.origin.confirmation != approval.origin.confirmation:
                break
            first = before
        return approval.origin.again > 0 or first.digest != approval.digest

    async def _refused_unseen(self, approval: Approval, actor: Actor) -> Refused:
        question = masked(approval).own_hint.strip()
        words = (
            f"{topic(approval)} is asked about again, and the session does not show that: "
            f"“{question}” A yes here does not count, because it may be the earlier one. "
            "Approve it where people see the question: on its page, by mail, in Slack, or with "
            f"`signoff approvals approve {approval.id}`. A no counts here as well."
        )
        error = NotShownInFull(words)
        return await self.decisions.refuse(approval.id, error, actor, wanted=moves.Approve.name)

    async def _refused_unclear(self, approval: Approval, actor: Actor) -> Refused:
        words = (
            f"{topic(approval)} is asked about again under the same id, and this yes may be the "
            "earlier one. Send the id of the event that asks as functionCallEventId, or approve it "
            f"elsewhere, such as with `signoff approvals approve {approval.id}`. A no counts "
            "without it."
        )
        error = NotShownInFull(words)
        return await self.decisions.refuse(approval.id, error, actor, wanted=moves.Approve.name)

    async def _find(self, caller: Caller, request: RunRequest, answer: SentAnswer) -> Approval:
        """Return the approval of a call.

        Raises:
            Problem: 404 if there is none, or the caller may not see it; 409 if there is none yet,
                and the session's turn does not pause or end in time.
        """
        seen = caller.may_see(request.app_name)
        own = seen and caller.may_use(request.app_name, request.user_id)
        ledger, where = self.decisions.ledger, _where(request)
        approval = await latest_approval(ledger, *where, answer.call)
        if approval is None and own:
            # A client that watches the turn sees the call before the run has paused.
            await self._wait_for_pause(where)
            approval = await latest_approval(ledger, *where, answer.call)
        if approval is None or not (own or (seen and await self._is_asked(caller, approval))):
            raise _no_such_call()
        return approval

    async def _wait_for_pause(self, where: tuple[str, str, str]) -> None:
        """Wait until no turn of a session is under way.

        Raises:
            Problem: 409 if one is still under way after some seconds.
        """
        for run in await self.decisions.ledger.session_runs(*where):
            if run.under_way:
                try:
                    await self._wait(run.id, partial(self._run_at_rest, run.id))
                except TimeoutError:
                    raise session_busy(
                        "The agent is at work in this session, and its calls can be answered when "
                        "it pauses. If this call is one of them, send the answer again."
                    ) from None

    async def _run_at_rest(self, run_id: str) -> Run | None:
        run = await self.decisions.ledger.run(run_id)
        return None if run.under_way else run

    async def _is_asked(self, caller: Caller, approval: Approval) -> bool:
        if caller.person is None:
            return False
        routed = await self._routed(approval)
        # People who are asked by the common card of a Slack channel only have a seat.
        seats = {one.person for one in routed.seats}
        return caller.person.id in seats | {one.person for one in routed.asked}

    async def _routed(self, approval: Approval) -> Approval:
        """Wait until the approvers are resolved: a client may answer before the router has run.

        Raises:
            Problem: 503 if they are not resolved after some seconds.
        """
        if _is_routed(approval):
            return approval
        try:
            return await self._wait(approval.id, partial(self._routed_approval, approval.id))
        except TimeoutError:
            raise Problem(
                503,
                "not-asked-yet",
                "Nobody has been asked yet",
                f"Signoff does not know yet who may answer {topic(approval)}: `signoff channels` "
                "applies the policies. Start it if it does not run, and send the answer again.",
                headers={"Retry-After": "2"},
            ) from None

    async def _routed_approval(self, approval_id: str) -> Approval | None:
        approval = await self.decisions.ledger.approval(approval_id)
        return approval if _is_routed(approval) else None

    async def _wait(self, subject: str, look: Callable[[], Awaitable[Found | None]]) -> Found:
        """Call `look` now and after each audit entry about a subject, until it returns something.

        Args:
            subject: The id of an approval or a run.
            look: Returns None to wait for the next entry.

        Raises:
            TimeoutError: It has returned nothing in time.
        """
        # The position is read before the first look, so that no change is missed.
        start = await latest(self.watching.store)
        entries = follow(self.watching.store, subject=subject, start=start)
        async with asyncio.timeout(self.patience):
            while (found := await look()) is None:
                await anext(entries)
        return found


async def latest_approval(
    ledger: Ledger, app: str, user: str, session: str, call: str
) -> Approval | None:
    """Return the approval of the latest question with this id in a session; None without one.

    A call has a new approval after each that has expired or is in doubt, and a node of a workflow
    asks with the same id each time it runs.
    """
    runs = await ledger.session_runs(app, user, session)
    ids = [one for run in runs for one in run.approvals]
    asked = [one for one in await ledger.approvals(ids) if one.origin.confirmation == call]
    if asked:
        return max(asked, key=lambda one: (one.origin.nth, one.origin.again, one.origin.expired))
    # It was answered in an earlier pause, whose approvals the run no longer lists.
    origin = Origin(run="", app=app, user=user, session=session, invocation="", confirmation=call)
    found: Approval | None = None
    with contextlib.suppress(ApprovalNotFound):
        while True:
            found = await ledger.approval(approval_id(origin))
            name = _NEXT.get(found.handoff, "nth")
            origin = found.origin.model_copy(update={name: getattr(found.origin, name) + 1})
    return found


def _where(request: RunRequest) -> tuple[str, str, str]:
    return request.app_name, request.user_id, request.session_id


def _person(caller: Caller, found: Sequence[Approval]) -> Person:
    """Return the person as whom a caller answers.

    Raises:
        Problem: 403 if the caller may not answer.
    """
    if caller.person is None:
        raise Problem(
            403,
            "nobody",
            "This caller answers for nobody",
            f"An answer to {topic(found[0])} has to come from somebody who is asked. "
            + caller.remedy,
        )
    return caller.person


def _is_routed(approval: Approval) -> bool:
    return approval.terms is not None or approval.state is not State.PENDING


def _require(outcome: Outcome) -> Approval:
    """Return the approval after a move.

    Raises:
        Problem: It was refused.
        PayloadError: The values do not fit.
    """
    if isinstance(outcome, Refused) and isinstance(outcome.error, DecisionRefused):
        raise _refused(outcome.approval, outcome.error) from outcome.error
    return outcome.approval_or_raise()


def _refused(latest: Approval, error: DecisionRefused) -> Problem:
    """Return a refusal as a problem for the person who has answered."""
    problem = problem_of(error)
    if isinstance(error, AlreadyDecided) and latest.decision is not None:
        at = latest.decision.at
        problem.detail = f"{str(error).rstrip('.')}, at {at:%Y-%m-%d %H:%M:%S} UTC."
        problem.more |= {
            "state": latest.state.value,
            "decided_by": latest.decision.by,
            "decided_at": at.isoformat(),
            "channel": latest.decision.channel,
        }
    elif isinstance(error, NotAnApprover) and latest.ballot.awaited:
        problem.detail = f"{error} Asked are: {', '.join(latest.ballot.awaited)}."
    return problem


def _move(verdict: Stated) -> Move:
    if verdict.yes:
        return moves.Approve(values=verdict.values, reason=verdict.reason)
    return moves.Reject(values=verdict.values, reason=verdict.reason)


def _proof(caller: Caller) -> dict[str, JsonValue]:
    """Return how the audit log names the person who has answered."""
    token = {"token": caller.token} if caller.token else {}
    return {"caller": caller.name, **token}


def _no_such_call() -> Problem:
    return Problem(
        404,
        "not-found",
        "There is no such call",
        "No call with this function_response.id waits, or has waited, in this session of this user "
        "in this app. The id is that of the call that waits, such as the adk_request_confirmation "
        "call.",
    )
