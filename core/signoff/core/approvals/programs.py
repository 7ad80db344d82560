"""Requests of programs that run their calls themselves; see the Agent Approval Protocol.

Such a call starts when the program consumes its approval, which is possible once. It is finished
when the program reports the result. If the program does not report in time, the call is in doubt.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final

from signoff.core.approvals.approval import Approval, Moved
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.moves import Actor, Move
from signoff.core.approvals.parts import Origin, Program, Report
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import NotStartable, ReportRefused
from signoff.core.base.moments import moment_text
from signoff.core.directory.people import Directory

_NAMESPACE: Final = uuid.UUID("0b1f9f3e-3d0e-5f0a-9b8e-6161702d7631")


def request_id(instance: str, key: str) -> str:
    """Return the id of the request that an instance makes under an idempotency key (a UUID)."""
    return str(uuid.uuid5(_NAMESPACE, f"{instance}\0{key}"))


def origin_of(instance: str, request: str, *, app: str, agent: str, user: str) -> Origin:
    """Return the origin of a request's call.

    The id of the approval is derived from it, so that a repeated request opens no second approval.
    """
    short = uuid.UUID(request).hex
    return Origin(
        run=f"run_{short}",
        app=app,
        agent=agent,
        user=user,
        session=instance,
        invocation=f"aap-{short}",
        confirmation=request,
    )


def run_of(approval: Approval) -> Run:
    """Return the run of a program's request, which waits for this approval only."""
    origin = approval.origin
    return Run(
        id=origin.run,
        app=origin.app,
        user=origin.user,
        session=origin.session,
        message=f"{approval.call.name}()",
        state=RunState.PAUSED,
        submitted_at=approval.opened_at,
        pause=1,
        approvals=(approval.id,),
        waiting=(approval.id,),
        outside=True,
    )


def permission(approval: Approval) -> tuple[Program, datetime | None]:
    """Return the request of a program, and until when its call may be started (UTC).

    Raises:
        NotStartable: The approval does not belong to a program.
    """
    program = approval.program
    if program is None:
        raise NotStartable(f"Approval {approval.id} is not a program's.", "not_approved")
    return program, approval.good_until(program.valid_for)


def consume(approval: Approval, *, by: str, key: str, now: datetime) -> Moved:
    """Start the call, which is possible once.

    Args:
        approval: The approval.
        by: Who starts it, for the audit.
        key: The idempotency key; repeating it gives the same answer.
        now: The present.

    Raises:
        NotStartable: It was started under another key, is not approved, or was not started in time.
    """
    program, until = permission(approval)
    mark = hashlib.sha256(key.encode()).hexdigest()
    if program.consumed_by == mark:
        return approval, ()
    if program.consumed_by:
        raise NotStartable(
            f"{approval.call.name}() was started on approval {approval.id} before.",
            "already_consumed",
        )
    if until is None or approval.handoff is not Handoff.RECORDED:
        state = approval.state.value.replace("_", " ")
        raise NotStartable(f"Approval {approval.id} is {state}.", "not_approved")
    if now >= until:
        raise NotStartable(
            f"Approval {approval.id} was good until {moment_text(until, UTC)}. Ask again.",
            "approval_expired",
        )
    after, events = approval.hand_on(Handoff.STARTED, now=now, by=by)
    update = {"consumed_by": mark, "consumed_at": now}
    return after.model_copy(update={"program": program.model_copy(update=update)}), events


def report(approval: Approval, *, by: str, succeeded: bool, note: str, now: datetime) -> Moved:
    """Record the result of the call, even if it is in doubt.

    Raises:
        ReportRefused: It was not started, or another result was reported before.
    """
    program = approval.program
    if program is None or not program.consumed_by:
        raise ReportRefused(f"{approval.call.name}() was not started.", "not_consumed")
    if program.report is not None:
        if (program.report.succeeded, program.report.note) == (succeeded, note):
            return approval, ()
        raise ReportRefused(
            f"Another outcome of {approval.call.name}() was reported before.", "outcome_conflict"
        )
    result = {"outcome": "succeeded" if succeeded else "failed"} | ({"note": note} if note else {})
    text = json.dumps(result, ensure_ascii=False)
    finished, ends = approval.hand_on(Handoff.FINISHED, now=now, by=by, result=text)
    told, went = finished.hand_on(Handoff.RESUMED, now=now, by=by)
    said = Report(succeeded=succeeded, note=note, at=now)
    update = {"program": program.model_copy(update={"report": said}), "reported": True}
    return told.model_copy(update=update), (*ends, *went)


def doubt(approval: Approval, *, now: datetime) -> Moved:
    """Put the call in doubt if it was started and no result was reported; see `report`."""
    if approval.program is None or approval.handoff is not Handoff.STARTED:
        return approval, ()
    why = (
        f"the program has started {approval.call.name}() and has not reported the result: it "
        "may have happened or not"
    )
    after, events = approval.hand_on(Handoff.IN_DOUBT, now=now, why=why, by="timer")
    return after.model_copy(update={"reported": True}), events


def waits_again(run: Run, approvals: Sequence[str]) -> Run:
    """Return the run of a request that waits for other approvals than before."""
    update = {"state": RunState.PAUSED, "waiting": tuple(approvals), "pause": run.pause + 1}
    known = dict.fromkeys((*run.approvals, *approvals))
    return run.model_copy(update=update | {"approvals": tuple(known)})


def note_of(approval: Approval) -> str:
    """Return the note about the decision for the program, "" if there is none."""
    decision = approval.decision
    if decision is None:
        return ""
    said = [decision.reason.strip()]
    if decision.proposal is not None:
        args = json.dumps(decision.proposal, ensure_ascii=False)
        said.append(f"It would be approved with exactly these arguments: {args}")
    return "\n".join(filter(None, said))


@dataclass(frozen=True, slots=True)
class Consume(Move):
    """Start the call of a program; see `consume`."""

    name: ClassVar[str] = "consume"
    in_time: ClassVar[bool] = False
    key: str

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Start it."""
        return consume(approval, by=actor.by, key=self.key, now=now)


@dataclass(frozen=True, slots=True)
class ReportOutcome(Move):
    """Record the result of the call of a program; see `report`.

    Attributes:
        succeeded: Whether the call succeeded.
        note: The note of the program, "" for none.
    """

    name: ClassVar[str] = "report"
    in_time: ClassVar[bool] = False
    succeeded: bool
    note: str = ""

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Record it."""
        note = self.note
        return report(approval, by=actor.by, succeeded=self.succeeded, note=note, now=now)


@dataclass(frozen=True, slots=True)
class Cancel(Move):
    """Withdraw the request of a program, as the program. Repeating it changes nothing."""

    name: ClassVar[str] = "cancel"
    in_time: ClassVar[bool] = False

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Withdraw it."""
        if approval.state is State.WITHDRAWN:
            return approval, ()
        reason = "the program that asked has withdrawn it"
        return approval.withdraw(by=actor.by, reason=reason, now=now)
