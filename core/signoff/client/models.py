"""What the REST API gives, as the gateway writes it and the client reads it.

Moments are in UTC. What the gateway gives may have more members in a later version: they are left
alone here. What it takes is in `signoff.client.bodies`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from signoff.core.access.api_tokens import Scope
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import RunState
from signoff.core.policies.levels import Outcome as Verdict

T = TypeVar("T")


class Given(BaseModel):
    """What the gateway gives."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Fault(Given):
    """One thing that is wrong with a request.

    Attributes:
        pointer: Where: a JSON pointer (RFC 6901) into the body, or the name of a parameter.
        detail: What.
    """

    pointer: str
    detail: str


class Problem(Given):
    """Why a request was not carried out (RFC 9457).

    Attributes:
        type: The kind, the same each time: ``urn:signoff:problem:already-decided``.
        title: The kind in words.
        status: The HTTP status.
        detail: What was wrong with this request, and what to do.
        errors: Each thing that is wrong, where it has the wrong form.
    """

    type: str
    title: str
    status: int
    detail: str = ""
    errors: tuple[Fault, ...] = ()


class Me(Given):
    """Whose token it is, and what it is good for.

    Attributes:
        id: The token's id.
        name: What the token is for.
        person: The id of the person as whom it acts, "" for a system.
        users: For a system: the ADK users for whom it submits; ``*`` for all.
        apps: The agents it may use; all where none is named.
        scopes: What it is good for.
        expires_at: From when on it is worth nothing.
    """

    id: str
    name: str = ""
    person: str = ""
    users: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    expires_at: datetime | None = None


class Run(Given):
    """One run of an agent: from a message to the agent's last word.

    Attributes:
        id: Its id.
        app: The agent.
        user: The ADK user id: the requester.
        session: The ADK session id.
        message: What the user said.
        state: Where it stands.
        submitted_at: When.
        approvals: The approvals of its present pause.
        waiting: Those of them that are not decided yet.
        text: The agent's last word.
        problem: Why it failed or is in doubt.
    """

    id: str
    app: str
    user: str
    session: str
    message: str
    state: RunState
    submitted_at: datetime
    approvals: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""


class Call(Given):
    """A tool call that waits.

    Attributes:
        tool: The name of the tool.
        args: The arguments, as shown and as they will run.
    """

    tool: str
    args: dict[str, JsonValue] = Field(default_factory=dict)


class Decision(Given):
    """What ended an approval.

    Attributes:
        by: The id of the person; "" when the deadline or the requester ended it.
        at: When.
        channel: How it came: ``email``, ``slack``, ``api``, ``deadline``, ...
        reason: In the person's own words.
        payload: The values for the tool, or the answer to a request for input.
        proposal: For a rejection that says what would be approved: the arguments of that call.
    """

    by: str = ""
    at: datetime
    channel: str = ""
    reason: str = ""
    payload: JsonValue = None
    proposal: dict[str, JsonValue] | None = None


class Claimed(Given):
    """A decision that somebody has reserved.

    Attributes:
        id: The approval.
        by: The id of the person.
        until: When the claim ends by itself.
    """

    id: str
    by: str
    until: datetime


class Vote(Given):
    """An answer that by itself has not ended an approval.

    Attributes:
        by: The id of the person.
        stands_for: The id of the person whose place it fills, where that is another.
        verdict: ``approve`` or ``reject``.
        at: When.
        channel: How it came.
        reason: In the person's own words.
    """

    by: str
    stands_for: str = ""
    verdict: Verdict
    at: datetime
    channel: str = ""
    reason: str = ""


class Comment(Given):
    """What somebody has said about an approval, for all who see it.

    Attributes:
        by: The id of the person.
        at: When.
        sort: ``comment``, ``question`` to the requester, or the requester's ``answer``.
        text: What.
    """

    by: str
    at: datetime
    sort: str
    text: str


class Approval(Given):
    """What is asked, of whom, until when, and what came of it.

    Attributes:
        id: Its id.
        state: Where it stands.
        handoff: What became of the answer.
        kind: What is asked for.
        call: The tool and its arguments.
        digest: SHA-256 over the canonical form of the call. Whoever approves sends it back.
        hint: The tool's own words for the approver.
        said: What the agent said before the call, "" where it said nothing.
        template: The values that an approval may fill in; null where there are none.
        requester: The ADK user id of whoever asks.
        app: The agent's app.
        agent: The agent that called the tool.
        run: The id of the run.
        session: The ADK session id.
        policy: By which policy, "" until it has been routed.
        level: Which level is asked, counted from 0.
        approvers: The ids of those who are asked.
        awaited: The ids of those of them whose answers are waited for.
        claimed: Who has reserved the decision; null where nobody has.
        votes: The answers that count and have not ended it.
        comments: What was said about it, and what the requester was asked and has answered.
        two_steps: Whether a yes takes a second step on the inbox page, so that none counts here.
        opened_at: When it was opened.
        deadline: Until when the present level may answer; null until routed, or without an end.
        decision: What ended it.
        supersedes: The approval whose place it takes.
        version: Counts its changes.
    """

    id: str
    state: State
    handoff: Handoff
    kind: Kind
    call: Call
    digest: str
    hint: str = ""
    said: str = ""
    template: JsonValue = None
    requester: str
    app: str
    agent: str = ""
    run: str
    session: str
    policy: str = ""
    level: int = 0
    approvers: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    claimed: Claimed | None = None
    votes: tuple[Vote, ...] = ()
    comments: tuple[Comment, ...] = ()
    two_steps: bool = False
    opened_at: datetime
    deadline: datetime | None = None
    decision: Decision | None = None
    supersedes: str = ""
    version: int


class Outcome(Given):
    """What became of one of several approvals that were answered together.

    Attributes:
        id: Its id.
        approval: As it is now, where the answer counts.
        problem: Why it does not, else.
    """

    id: str
    approval: Approval | None = None
    problem: Problem | None = None


class Entry(Given):
    """One thing that happened.

    Attributes:
        what: Its kind; see the reference of the events.
        at: When.
        by: The id of the person, or the part of Signoff, that caused it.
        why: The reason in words.
        more: Details, for those who may read the audit.
    """

    what: str
    at: datetime
    by: str = ""
    why: str = ""
    more: dict[str, JsonValue] = Field(default_factory=dict)


class AuditEvent(Entry):
    """One thing that happened, and to what.

    Attributes:
        approval: The id of the approval, "" when it is about the run alone.
        run: The id of the run, "" when it is about none.
    """

    approval: str = ""
    run: str = ""


class AuditLine(Given):
    """A line of the audit.

    Attributes:
        id: Its place; whoever goes on behind it passes it as `after`.
        entry: What happened.
        link: The link of the chain; see docs/explanation/audit.md.
    """

    id: str
    entry: AuditEvent
    link: str


class Page(Given, Generic[T]):
    """Part of a list, the newest first.

    Attributes:
        items: What was found. It may be fewer than asked for, even none, before the end.
        next: The `cursor` that goes on behind them; null at the end.
    """

    items: tuple[T, ...] = ()
    next: str | None = None
