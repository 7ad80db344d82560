"""Opening and starting the requests of programs, for every protocol."""

from __future__ import annotations

from signoff.broker.decisions import Decisions, Outcome, Taken
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import RouteApproval
from signoff.core.approvals import programs
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Origin, Program, ToolCall
from signoff.core.base.errors import NotStartable
from signoff.core.base.hiding import Hidden
from signoff.core.payloads.digest import digest


async def opening(
    ledger: Ledger,
    origin: Origin,
    call: ToolCall,
    program: Program,
    *,
    hide: Hidden,
    said: str = "",
) -> tuple[Approval, Change]:
    """Return an approval for the call of a program, and the change that opens it with its run.

    If a rejection proposed this very call, the approval replaces the rejected one.

    Args:
        ledger: The ledger.
        origin: Where the call comes from.
        call: The call.
        program: The request.
        hide: The arguments to hide until its policy is known.
        said: What the agent said.

    Raises:
        NotCanonical: The arguments cannot be kept.
    """
    now = await ledger.now()
    proposer = await ledger.proposer(origin, digest(call.name, call.args))
    approval, events = Approval.open(
        origin,
        call,
        hint="",
        template=None,
        now=now,
        supersedes=proposer.id if proposer is not None else "",
        said=said,
        hide=hide,
        program=program,
    )
    run = programs.run_of(approval)
    change = Change().put(run, was=None).put(approval, was=None)
    if proposer is not None:
        taken_up = proposer.model_copy(update={"superseded_by": approval.id})
        change.put(taken_up, was=proposer)
    change.note((*run.submitted(), *events)).send(RouteApproval(approval=approval.id))
    return approval, change


async def require_startable(decisions: Decisions, change: Change, outcome: Outcome) -> None:
    """Let the commit of a start fail if the tool is frozen; see `Extras.on_commit`.

    It checks the approval that is committed: one that was read before may have been decided since.

    Raises:
        NotStartable, KeyUnknown: See `require_proven`.
    """
    if isinstance(outcome, Taken) and outcome.events:
        approval = outcome.approval
        await require_proven(decisions, approval)
        change.starting(approval.origin.app, [approval.call.name], despite=approval.despite)


async def require_proven(decisions: Decisions, approval: Approval) -> None:
    """Refuse to start a call on a decision that no receipt proves.

    Raises:
        NotStartable: No valid receipt proves it.
        KeyUnknown: Its receipt is signed with a key that this process does not have.
    """
    receipts = decisions.ledger.receipts
    if receipts is None:
        return
    if why := receipts.why_refused(approval, await decisions.ledger.now()):
        raise NotStartable(f"Nothing proves this approval: {why}.", "not_approved")
