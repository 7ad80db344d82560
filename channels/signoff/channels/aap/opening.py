"""Opening and starting the requests of programs, for every protocol."""

from __future__ import annotations

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import RouteApproval
from signoff.core.approvals import programs
from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.moves import Actor
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


async def starting(decisions: Decisions, approval: Approval, actor: Actor) -> Change:
    """Return the change that is committed with the start of a call.

    The commit is refused if the tool is frozen.

    Raises:
        NotStartable: Nothing proves the approval.
    """
    also = Change()
    if approval.handoff is Handoff.RECORDED and approval.state is State.APPROVED:
        receipts, now = decisions.ledger.receipts, await decisions.ledger.now()
        if receipts is not None and (why := receipts.why_refused(approval, now)):
            problem = NotStartable(f"Nothing proves this approval: {why}.", "not_approved")
            await decisions.refuse(approval.id, problem, actor)
            raise problem
        also.starting(approval.origin.app, [approval.call.name], despite=approval.despite)
    return also
