"""What is still to be said to a session, and what was said already by a worker that died."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.adk.events.event import Event
from google.genai import types

from signoff.core.approval import Approval
from signoff.core.errors import SessionGone
from signoff.core.longrunning import LongRunning
from signoff.worker.adk.answers import answer_part, request_part
from signoff.worker.adk.history import answered_ids
from signoff.worker.adk.questions import Request, is_request, request_of


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request.

    Attributes:
        part: What to say.
        given: Whether it stands in the session.
        apart: It as an event of its own, for the call of a model. What is said in one message with
            a confirmation is not shown to the model (google.adk.flows.llm_flows.context).
    """

    part: types.Part
    given: bool
    apart: Event | None = None


def reply(events: Sequence[Event], approval: Approval, rules: Sequence[LongRunning]) -> Reply:
    """Return what is to be said for an approval.

    Args:
        events: The events of the session; the approval was held against them before.
        approval: The decided approval.
        rules: The long-running tools that wait for an approval.

    Raises:
        InputRefused: A request for input was not answered, and has no way to say no.
        ConditionError: The result of a long-running call cannot be built.
        SessionGone: Somebody else has answered the request, and otherwise.
    """
    if not is_request(approval):
        return Reply(answer_part(approval), approval.origin.confirmation in answered_ids(events))
    request = request_of(events, approval)
    if request is None:
        raise SessionGone(f"The question of approval {approval.id} is not in the session any more.")
    part = request_part(approval, request, rules)
    if request.answer is None:
        return Reply(part, given=False, apart=_apart(events, request, part))
    ours = part.function_response.response if part.function_response else None
    if request.answer == ours:
        return Reply(part, given=True)
    if approval.origin.again:
        # The node was in doubt, and the approver has now said otherwise: the last answer counts.
        return Reply(part, given=False)
    raise SessionGone(
        f"Session {approval.origin.session} went on without us: somebody else has answered the "
        f"question of approval {approval.id}, and otherwise. Nothing was said or run."
    )


def message_of(replies: Sequence[Reply]) -> types.Content | None:
    """Return replies as one message, None where there are none."""
    parts = [one.part for one in replies]
    return types.Content(role="user", parts=parts) if parts else None


def split(replies: Sequence[Reply]) -> tuple[list[Event], list[Reply]]:
    """Return what is put into the session beforehand, and what is said to the agent."""
    apart = [one.apart for one in replies if one.apart is not None]
    together = [one for one in replies if one.apart is None]
    return (apart, together) if together else ([], list(replies))


def _apart(events: Sequence[Event], request: Request, part: types.Part) -> Event | None:
    if not request.by_model:
        return None
    call = events[request.place]
    return Event(
        author="user",
        invocation_id=request.invocation,
        branch=call.branch,
        isolation_scope=call.isolation_scope,
        content=types.Content(role="user", parts=[part]),
    )
