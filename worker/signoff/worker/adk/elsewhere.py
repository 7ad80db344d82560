"""Whether somebody else has answered a confirmation, and run the tool, behind our back.

A session store may be shared: with an `adk web`, or with the user's own server. There is no guard
in those, and what they ran cannot be undone; it can be said.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.adk.events.event import Event

from signoff.core.approval import Approval
from signoff.core.errors import SessionGone
from signoff.core.lifecycle import Handoff, State
from signoff.worker.adk.answers import refusal
from signoff.worker.adk.history import CONFIRMATION


def require_ours(events: Sequence[Event], approval: Approval) -> None:
    """Refuse to go on with a call that somebody else has answered otherwise, or has run.

    Before a worker of ours lets a tool run, the approval says that it was started. A result in the
    session behind a yes, and an approval that says nothing, is the work of somebody else.

    Raises:
        SessionGone: It was.
    """
    if approval.handoff is not Handoff.RECORDED or approval.starts or approval.origin.again:
        return
    yes = False
    for event in events:
        for response in event.get_function_responses():
            if event.author == "user":
                if response.name == CONFIRMATION and response.id == approval.origin.confirmation:
                    yes = (response.response or {}).get("confirmed") is True
                    _require_our_answer(approval, yes=yes)
            elif yes and response.id == approval.call.id and response.response != refusal(approval):
                raise SessionGone(
                    f"{approval.call.name}() of approval {approval.id} was answered and run by "
                    f"somebody else in session {approval.origin.session}: an `adk web` on the same "
                    f"database? Its approval here, {approval.outcome()}, came to nothing."
                )


def _require_our_answer(approval: Approval, *, yes: bool) -> None:
    if yes is not (approval.state is State.APPROVED):
        raise SessionGone(
            f"Session {approval.origin.session} went on without us: somebody else has answered the "
            f"call that approval {approval.id} is for, and otherwise. Its approval here, "
            f"{approval.outcome()}, came to nothing; nothing was run by it."
        )
