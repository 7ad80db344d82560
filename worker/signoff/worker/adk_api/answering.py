"""An answer that came by the API: found, held to the rules, and committed like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from pydantic import JsonValue

from signoff.broker.change import Change
from signoff.broker.desk import Desk
from signoff.broker.follow import follow
from signoff.broker.ledger import Ledger
from signoff.core.approval import Approval, State
from signoff.core.errors import AlreadyDecided, ApprovalNotFound, DecisionRefused, NotAnApprover
from signoff.core.events import What
from signoff.core.lifecycle import Handoff
from signoff.core.parts import Kind, Origin, approval_id
from signoff.core.payload import LONE_FIELD, check_payload
from signoff.core.people import Person
from signoff.core.run import RunState
from signoff.worker.adk_api.bodies import Answer, RunRequest
from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import Problem, problem_of

log = structlog.get_logger(__name__)

CHANNEL: Final = "api"

_ROUTING: Final = 5.0


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn that a request has brought about, or will once its siblings are answered.

    Attributes:
        run: The run.
        pause: How many times it had paused before that turn.
        waiting: How many answers it still waits for.
    """

    run: str
    pause: int
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Answering:
    """Takes answers.

    Attributes:
        desk: Decides.
        watching: The ledger on connections that may be held while something is waited for.
    """

    desk: Desk
    watching: Ledger

    async def take(self, caller: Caller, request: RunRequest, answers: Sequence[Answer]) -> Turn:
        """Commit the answers of one message, as the person that the caller is.

        All are tried before the first is committed, so that one that cannot be taken leaves the
        others undone too. Each is committed by itself: where somebody else answers at the same
        moment, those before it stay.

        Raises:
            Problem: 404 for a call that is not there, or not to be seen by this caller; 403 for
                somebody who may not answer; 409 for a call that is answered; 422 for values that
                do not fit; 503 while nobody has been asked yet.
            PayloadError: The values do not fit; nothing was committed.
            LedgerUnavailable: Redis cannot be reached.
        """
        found = [await self._find(caller, request, one) for one in answers]
        person = self._person(caller, found)
        runs = {one.origin.run for one in found}
        if len(runs) > 1:
            raise _mismatch("The calls that this message answers belong to different runs.")
        given, wanted = request.invocation_id, found[0].origin.invocation
        if given and given != wanted:
            raise _mismatch(f"invocationId is that of another turn; this call belongs to {wanted}.")
        found = [await self._routed(one) for one in found]
        pause = (await self.desk.ledger.run(found[0].origin.run)).pause
        now = await self.desk.ledger.now()
        for approval, answer in zip(found, answers, strict=True):
            await self._try(caller, person, approval, answer, now)
        for approval, answer in zip(found, answers, strict=True):
            await self._commit(caller, person, approval, answer)
        run = await self.desk.ledger.run(found[0].origin.run)
        still = run.pause == pause and run.state is RunState.PAUSED
        return Turn(run.id, pause, len(run.waiting) if still else 0)

    async def _find(self, caller: Caller, request: RunRequest, answer: Answer) -> Approval:
        """Return the approval of a call; one that the caller may not see is not there."""
        origin = Origin(
            run="",
            app=request.app_name,
            user=request.user_id,
            session=request.session_id,
            invocation="",
            confirmation=answer.call,
        )
        try:
            approval = await self.desk.ledger.approval(approval_id(origin))
            while approval.handoff is Handoff.IN_DOUBT:
                # The question whether it shall run again goes by the same id in the session.
                origin = origin.model_copy(update={"again": approval.origin.again + 1})
                approval = await self.desk.ledger.approval(approval_id(origin))
        except ApprovalNotFound:
            raise _no_such_call() from None
        if not caller.may_see(request.app_name) or not (
            caller.may_use(request.app_name, request.user_id)
            or await self._is_asked(caller, approval)
        ):
            raise _no_such_call()
        if approval.kind is not Kind.CONFIRMATION:
            raise _mismatch(
                f"{approval.call.name} waits for {approval.kind.value.replace('_', ' ')}, which is "
                "answered through the other channels; a yes to a call is all that is taken here."
            )
        return approval

    async def _is_asked(self, caller: Caller, approval: Approval) -> bool:
        if caller.person is None:
            return False
        routed = await self._routed(approval)
        return any(one.person == caller.person.id for one in routed.asked)

    def _person(self, caller: Caller, found: Sequence[Approval]) -> Person:
        if caller.person is None:
            raise Problem(
                403,
                "nobody",
                "This caller answers for nobody",
                f"An answer to {found[0].call.name}() has to come from somebody who is asked. "
                + caller.remedy,
            )
        return caller.person

    async def _routed(self, approval: Approval) -> Approval:
        """Wait until it is said who is asked: a client may answer before the router has looked.

        Raises:
            Problem: 503 if nobody has been asked after some seconds.
        """
        if approval.terms is not None or approval.state is not State.PENDING:
            return approval
        store = self.watching.store
        async with store.translated_client() as client:
            latest = await client.xrevrange(f"{store.prefix}audit", count=1)
        try:
            async with asyncio.timeout(_ROUTING):
                # Looked at after the place from which it is followed, so nothing falls between.
                approval = await self.desk.ledger.approval(approval.id)
                entries = follow(store, subject=approval.id, start=latest[0][0] if latest else "0")
                while approval.terms is None and approval.state is State.PENDING:
                    await anext(entries)
                    approval = await self.desk.ledger.approval(approval.id)
        except TimeoutError:
            raise Problem(
                503,
                "not-asked-yet",
                "Nobody has been asked yet",
                f"It is not said yet who answers {approval.call.name}(): the policies are applied "
                "by `signoff channels`. Does it run? Then send the answer again.",
                headers={"Retry-After": "2"},
            ) from None
        return approval

    async def _try(
        self, caller: Caller, person: Person, approval: Approval, answer: Answer, now: datetime
    ) -> None:
        """Find out whether an answer would be taken; this changes nothing."""
        directory = self.desk.directory
        try:
            if answer.confirmed:
                values = values_of(approval, answer.payload)
                approval.approve(person, directory, channel=CHANNEL, now=now, values=values)
            else:
                approval.reject(person, directory, channel=CHANNEL, now=now)
        except DecisionRefused as error:
            raise await self._refused(caller, person, approval.id, error) from error

    async def _commit(
        self, caller: Caller, person: Person, approval: Approval, answer: Answer
    ) -> None:
        try:
            if answer.confirmed:
                after = await self.desk.approve(
                    approval.id,
                    person,
                    channel=CHANNEL,
                    values=values_of(approval, answer.payload),
                    watched=True,
                )
            else:
                after = await self.desk.reject(
                    approval.id, person, channel=CHANNEL, reason=answer.reason, watched=True
                )
        except DecisionRefused as error:
            raise await self._refused(caller, person, approval.id, error) from error
        log.info(
            "answer.recorded",
            approval=after.id,
            run=after.origin.run,
            person=person.id,
            channel=CHANNEL,
            caller=caller.name,
            state=after.state.value,
        )

    async def _refused(
        self, caller: Caller, person: Person, approval: str, error: DecisionRefused
    ) -> Problem:
        """Note that an answer was refused, and return the problem that it is."""
        ledger = self.desk.ledger
        latest = await ledger.approval(approval)
        more: dict[str, JsonValue] = {"channel": CHANNEL, "caller": caller.name}
        event = latest.note(
            What.REFUSED_ANSWER,
            now=await ledger.now(),
            by=person.id,
            why=str(error),
            more=more,
        )
        await ledger.commit(Change().note([event]))
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
        elif isinstance(error, NotAnApprover) and latest.asked:
            names = ", ".join(one.person for one in latest.asked)
            problem.detail = f"{error} Asked are: {names}."
        return problem


def values_of(approval: Approval, payload: JsonValue) -> dict[str, JsonValue] | None:
    """Return the payload of a yes as values by field.

    Args:
        approval: What is answered.
        payload: As it came; None for none.

    Raises:
        PayloadError: It has a key too many, or a value of another kind; see
            `signoff.core.payload.check_payload`.
    """
    if payload is None:
        return None
    if approval.template is None:
        # Not a template, but the arguments that would be approved; see Approval.approve.
        checked = check_payload({} if payload == {} else dict(approval.call.args), payload)
    else:
        checked = check_payload(approval.template, payload)
    if approval.template is not None and not isinstance(approval.template, dict):
        return {LONE_FIELD: checked}
    # As it came: what a template leaves open has to be filled by the answer itself.
    return payload if isinstance(payload, dict) else None


def _mismatch(detail: str) -> Problem:
    return Problem(422, "invalid", "The body has the wrong form", detail)


def _no_such_call() -> Problem:
    return Problem(
        404,
        "not-found",
        "There is no such call",
        "No call with this function_response.id waits, or has waited, in this session of this user "
        "in this app. The id is that of the adk_request_confirmation call.",
    )
