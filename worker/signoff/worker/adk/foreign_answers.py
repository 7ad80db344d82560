"""Whether somebody else has answered a confirmation, behind our back.

A session store may be shared: with an `adk web`, or with the user's own server. There is no guard
in those, and what they ran cannot be undone; it can be said. What is said by a run of ours carries
its id, so that an answer that another one gives at this moment is not taken for our own.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.adk.events.event import Event

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.base.errors import SessionGone
from signoff.worker.adk.history import CONFIRMATION
from signoff.worker.adk.questions import is_node, request_of
from signoff.worker.refusals import refusal

MARK = "signoff_run"
"""The key in the metadata of an event that says which run of ours has put it into the session."""


def require_ours(events: Sequence[Event], approval: Approval) -> None:
    """Refuse to go on with a call that somebody else has answered.

    Before a worker of ours lets a tool run, the approval says that it was started. A yes in the
    session that is not ours, and an approval that says nothing, is the work of somebody else, who
    has run the tool or is about to.

    Raises:
        SessionGone: It was.
    """
    if approval.handoff is not Handoff.RECORDED or approval.starts or approval.origin.again:
        return
    request = request_of(events, approval) if is_node(approval) else None
    yes = theirs = False
    # A node asks under the same id each time it runs.
    for event in events[request.place :] if request is not None else events:
        for response in event.get_function_responses():
            if event.author == "user":
                if _answers(approval, response.name, response.id):
                    yes = (response.response or {}).get("confirmed") is True
                    theirs |= yes and not _is_ours(event, approval)
                    # An earlier question about this call may have been answered otherwise.
                    if not (approval.origin.expired and _is_ours(event, approval)):
                        _require_our_answer(approval, yes=yes)
            elif yes and response.id == approval.call.id and response.response != refusal(approval):
                raise _answered(approval, "was answered and run by somebody else")
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
        f"{approval.outcome()}, came to nothing."
    )


def _require_our_answer(approval: Approval, *, yes: bool) -> None:
    if yes is not (approval.state is State.APPROVED):
        raise SessionGone(
            f"Session {approval.origin.session} went on without us: somebody else has answered the "
            f"call that approval {approval.id} is for, and otherwise. Its approval here, "
            f"{approval.outcome()}, came to nothing; nothing was run by it."
        )
