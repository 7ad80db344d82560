"""The replies that a session still needs, and those that a dead worker has already sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.adk.events.event import Event
from google.genai import types

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.input.rules import InputRule
from signoff.core.base.errors import SessionGone
from signoff.worker.adk.answers import answer_part, request_part
from signoff.worker.adk.foreign_answers import MARK
from signoff.worker.adk.history import answered_ids, asking_event
from signoff.worker.adk.questions import is_request, request_of


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """The answer to one request.

    Attributes:
        approval: The approval that it is about.
        part: The content of the reply.
        given: Whether the session already has it.
        asking: The event that asks.
        of_node: Whether a node of a workflow asks, rather than an agent.
    """

    approval: Approval
    part: types.Part
    given: bool
    asking: Event
    of_node: bool = False


def reply(
    events: Sequence[Event],
    approval: Approval,
    rules: Sequence[LongRunning],
    inputs: Sequence[InputRule] = (),
) -> ReplyPart:
    """Return the reply for an approval.

    Args:
        events: The events of the session; the approval was already compared with them.
        approval: The decided approval.
        rules: The long-running tools that wait for an approval.
        inputs: What a plain yes or no means for requests for input without a schema.

    Raises:
        InputRefused: A request for input was not answered, and it has no form of refusal.
        ConditionError: The result of a long-running call cannot be built.
        SessionGone: The request is missing, or somebody else has given it another answer.
    """
    if not is_request(approval):
        asking = asking_event(events, approval.origin.confirmation)
        if asking is None:
            raise _gone(approval)
        given = approval.origin.confirmation in answered_ids(events)
        return ReplyPart(approval, answer_part(approval), given, asking)
    request = request_of(events, approval)
    if request is None:
        raise _gone(approval)
    part = request_part(approval, request, rules, inputs)
    ours = part.function_response.response if part.function_response else None
    # A node that was in doubt is answered once more, and the last answer counts.
    given = request.answer is not None and (request.answer == ours or not approval.origin.again)
    if given and request.answer != ours:
        raise SessionGone(
            f"Session {approval.origin.session} went on without us: somebody else has answered the "
            f"question of approval {approval.id}, and otherwise. Nothing was said or run."
        )
    return ReplyPart(approval, part, given, events[request.place], of_node=not request.by_model)


def grouped(replies: Iterable[ReplyPart]) -> list[list[ReplyPart]]:
    """Return replies grouped by the agents that have asked, in the order of their questions.

    ADK assigns a message to the branch of the call that its first part answers, and an agent sees
    only its own branch (google.adk.runners._stamp_event_branch_context). So if one message answered
    two agents, the second would never get its answer. Nodes of a workflow get their replies
    together, after the others.
    """
    groups: dict[tuple[str, str | None], list[ReplyPart]] = {}
    nodes: list[ReplyPart] = []
    for one in replies:
        if one.of_node:
            nodes.append(one)
        else:
            groups.setdefault((one.asking.author or "", one.asking.branch), []).append(one)
    return [*groups.values(), *([nodes] if nodes else [])]


def message_of(group: Sequence[ReplyPart]) -> tuple[list[Event], types.Content]:
    """Return the replies to store before a message, and the message itself, for one agent.

    ADK does not show the model anything in the same message as a confirmation
    (google.adk.flows.llm_flows.context). So results of long-running calls are stored before it.
    """
    confirming = [one for one in group if one.of_node or not is_request(one.approval)]
    together = confirming or group
    ahead = [_filed([one]) for one in group if one not in together]
    return ahead, types.Content(role="user", parts=[one.part for one in together])


def filed(group: Sequence[ReplyPart]) -> list[Event]:
    """Return answers to one agent as events, in the branch where the agent will find them."""
    results = [one for one in group if is_request(one.approval)]
    confirming = [one for one in group if one not in results]
    return [*(_filed([one]) for one in results), *([_filed(confirming)] if confirming else [])]


def _filed(replies: Sequence[ReplyPart]) -> Event:
    asking = replies[0].asking
    return Event(
        author="user",
        invocation_id=asking.invocation_id,
        branch=asking.branch,
        isolation_scope=asking.isolation_scope,
        content=types.Content(role="user", parts=[one.part for one in replies]),
        custom_metadata={MARK: replies[0].approval.origin.run},
    )


def _gone(approval: Approval) -> SessionGone:
    return SessionGone(f"The question of approval {approval.id} is not in the session any more.")
