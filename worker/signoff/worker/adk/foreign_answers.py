"""Detects confirmations that somebody else has answered.

A session store may be shared with an `adk web`, or with the user's own server. These have no guard.
We cannot undo the tools that they have run, but we can report them. Our own answers carry the id of
their run, so that an answer that somebody else gives at the same moment is not taken for ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.adk.events.event import Event

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.base.errors import SessionGone
from signoff.worker.adk.questions import CONFIRMATION, is_node, request_of
from signoff.worker.refusals import refusal

MARK = "signoff_run"
"""The key of the id of our run in the metadata of an event that the run has appended."""


def require_ours(events: Sequence[Event], approval: Approval) -> None:
    """Require that nobody else has answered a call.

    Before one of our workers lets a tool run, it marks the approval as started. If the approval is
    not marked, and the session has a confirmation that is not ours, somebody else has run the tool
    or is about to run it.

    Raises:
        SessionGone: Somebody else has answered the call.
    """
    if approval.handoff is not Handoff.RECORDED or approval.starts or approval.origin.again:
        return
    request = request_of(events, approval) if is_node(approval) else None
    yes = theirs = False
    # A node asks with the same id each time it runs.
    since = events[request.place :] if request is not None else events
    for event, response in ((one, each) for one in since for each in one.get_function_responses()):
        if event.author != "user":
            if yes and response.id == approval.call.id and response.response != refusal(approval):
                raise _answered(approval, "was answered and run by somebody else")
        elif _answers(approval, response.name, response.id):
            yes = (response.response or {}).get("confirmed") is True
            ours = _is_ours(event, approval)
            theirs |= yes and not ours
            # An earlier question about this call may have got another answer.
            if not (approval.origin.expired and ours):
                _require_our_answer(approval, yes=yes)
    if theirs:
        raise _answered(approval, "was approved by somebody else, and may be running there,")


def _answers(approval: Approval, name: str | None, request: str | None) -> bool:
    return request == approval.origin.confirmation and (name == CONFIRMATION or is_node(approval))


def _is_ours(event: Event, approval: Approval) -> bool:
    return (event.custom_metadata or {}).get(MARK) == approval.origin.run


def _answered(approval: Approval, what: str) -> SessionGone:
    return SessionGone(
        f"{approval.call.name}() of approval {approval.id} {what} in session "
        f"{approval.origin.session}: an `adk web` on the same database? Its approval here, "
        f"{approval.outcome()}, had no effect."
    )


def _require_our_answer(approval: Approval, *, yes: bool) -> None:
    if yes is not (approval.state is State.APPROVED):
        raise SessionGone(
            f"Session {approval.origin.session} went on without us: somebody else has answered the "
            f"call that approval {approval.id} is for, and otherwise. Its approval here, "
            f"{approval.outcome()}, had no effect; nothing was run by it."
        )
