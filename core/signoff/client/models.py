"""The answers of the REST API, as the gateway writes them and the client reads them.

They differ from the models of the domain, which may change, and which contain data that a token
must not see (the addresses of people). Moments are in UTC, and lengths of time in seconds. A later
gateway may add members, which the client ignores. The bodies of requests are in
`signoff.channels.rest.bodies`.
"""

from datetime import date, datetime
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from signoff.core.access.scopes import Scope
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import RunState
from signoff.core.policies.levels import Verdict

T = TypeVar("T")


class Given(BaseModel):
    """The base class of answers."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Fault(Given):
    """One error in the form of a request.

    Attributes:
        pointer: The place: a JSON pointer (RFC 6901) into the body, or the name of a parameter.
        detail: What is wrong there.
    """

    pointer: str
    detail: str


class Problem(Given):
    """Why a request was refused (RFC 9457).

    Attributes:
        type: The type of the error: ``urn:signoff:problem:already-decided``.
        title: The type in words.
        status: The HTTP status.
        detail: What is wrong, and what to do.
        errors: The errors in the form of the request, if there are any.
    """

    type: str
    title: str
    status: int
    detail: str = ""
    errors: tuple[Fault, ...] = ()


class Me(Given):
    """A token's owner and scopes.

    Attributes:
        id: The token's id.
        name: The token's name.
        person: The id of the person for whom it acts, "" for a system.
        users: For a system: the ADK users for whom it submits; ``*`` for all.
        apps: The agents it may use; empty for all.
        scopes: Its scopes.
        expires_at: When it expires.
    """

    id: str
    name: str = ""
    person: str = ""
    users: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    expires_at: datetime | None = None


class Run(Given):
    """One run of an agent, from a message to the agent's last message.

    Attributes:
        id: Its id.
        app: The agent.
        user: The ADK user id: the requester.
        session: The ADK session id.
        message: The user's message.
        state: Its state.
        submitted_at: When it was submitted.
        approvals: The ids of the approvals of its current pause.
        waiting: The ids of those that are pending.
        text: The agent's last message.
        problem: Why it failed or is in doubt.
        held: The tool at which `signoff freeze` holds it, `*` for the whole app, "" if it is not
            held.
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
    held: str = ""


class Call(Given):
    """A tool call.

    Attributes:
        tool: The name of the tool.
        args: The arguments, exactly as they will run, except for the hidden ones.
        hidden: The arguments that the policy hides, or in which it hides something. ``hidden by
            policy`` replaces the hidden values.
    """

    tool: str
    args: dict[str, JsonValue] = Field(default_factory=dict)
    hidden: tuple[str, ...] = ()


class Decision(Given):
    """The decision that ended an approval.

    Attributes:
        by: The id of the person; "" for a timeout or a withdrawal by the requester.
        at: When it was made.
        channel: The channel: ``email``, ``slack``, ``api``, ``deadline``, ...
        reason: In the person's own words.
        payload: The values for the tool, or the answer to a request for input.
        proposal: For a rejection with a proposal: the arguments of the proposed call.
    """

    by: str = ""
    at: datetime
    channel: str = ""
    reason: str = ""
    payload: JsonValue = None
    proposal: dict[str, JsonValue] | None = None


class Claimed(Given):
    """A claim.

    Attributes:
        id: The id of the approval.
        by: The id of the person.
        until: When the claim expires.
    """

    id: str
    by: str
    until: datetime


class Vote(Given):
    """One vote.

    Attributes:
        by: The id of the person.
        stands_for: The id of the person whom this person represents, "" for their own seat.
        verdict: ``approve`` or ``reject``.
        at: When it was given.
        channel: The channel.
        reason: In the person's own words.
    """

    by: str
    stands_for: str = ""
    verdict: Verdict
    at: datetime
    channel: str = ""
    reason: str = ""


class Comment(Given):
    """A comment on an approval.

    Attributes:
        by: The id of the person.
        at: When it was made.
        sort: ``comment``, ``question`` to the requester, or the requester's ``answer``.
        text: The text.
    """

    by: str
    at: datetime
    sort: str
    text: str


class Approval(Given):
    """One approval: the call, the approvers, the deadline and the decision.

    Attributes:
        id: Its id.
        state: Its state.
        handoff: How far the decision has reached the agent.
        kind: What is asked for.
        title: The policy's title for it, "" if it has none.
        call: The tool and its arguments.
        digest: SHA-256 over the call, its agent, app and requester. Send it back to approve.
        hint: The tool's hint for the approver.
        said: What the agent said before the call, "" for nothing.
        request: The requester's message to the agent, at most 500 characters.
        template: The template of values to fill in, or null.
        requester: The requester's ADK user id.
        app: The agent's app.
        agent: The agent that called the tool.
        run: The id of the run.
        session: The ADK session id.
        policy: The policy, "" until it is routed.
        policy_version: The version of the policy; `signoff policy history` shows them.
        level: The current level, counted from 0.
        approvers: The ids of the approvers.
        awaited: The ids of approvers who have not answered.
        informed: The ids of people who are informed and do not decide.
        claimed: The claim, or null.
        votes: The votes so far.
        comments: The comments, questions and answers.
        two_steps: Whether an approval needs a second step on the inbox page, so that the API cannot
            approve.
        opened_at: When it was opened.
        deadline: The deadline of the current level; null until it is routed, or if it stays open.
        decision: The decision, or null.
        supersedes: The id of the approval that it replaces, "" for none.
        version: The number of changes.
    """

    id: str
    state: State
    handoff: Handoff
    kind: Kind
    title: str = ""
    call: Call
    digest: str
    hint: str = ""
    said: str = ""
    request: str = ""
    template: JsonValue = None
    requester: str
    app: str
    agent: str = ""
    run: str
    session: str
    policy: str = ""
    policy_version: str = ""
    level: int = 0
    approvers: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    informed: tuple[str, ...] = ()
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
    """The outcome for one of several approvals that were approved together.

    Attributes:
        id: The id of the approval.
        approval: The approval after the answer, or null if the answer does not count.
        problem: Why the answer does not count, or null if it does.
    """

    id: str
    approval: Approval | None = None
    problem: Problem | None = None


class Entry(Given):
    """One event.

    Attributes:
        what: Its kind; see the events reference.
        at: When it happened.
        by: The id of the person, or the part of Signoff, that caused it.
        why: The reason in words.
        more: Details, if the token may read the audit.
    """

    what: str
    at: datetime
    by: str = ""
    why: str = ""
    more: dict[str, JsonValue] = Field(default_factory=dict)


class AuditEvent(Entry):
    """One event of an approval or a run.

    Attributes:
        approval: The id of the approval, "" if the event is only about the run.
        run: The id of the run, "" if the event is not about a run.
    """

    approval: str = ""
    run: str = ""


class AuditLine(Given):
    """A line of the audit.

    Attributes:
        id: Its position. Pass it as `after` to continue.
        entry: The event.
        link: The link of the chain; see docs/explanation/audit.md.
    """

    id: str
    entry: AuditEvent
    link: str


class Queue(Given):
    """Pending approvals of a queue, a person, or all.

    Attributes:
        name: ``queue:finance``, the id of a person, or ``all``.
        waiting: How many are pending.
        oldest: When the oldest of them was opened.
        next_due: The next deadline.
        overdue: How many are overdue and stay open.
        on: The ids of people who may answer now, sorted by how many they may answer.
        claimed: The claims; the claim that expires next comes first.
        questions: How many wait for an answer from the requester.
    """

    name: str
    waiting: int = 0
    oldest: datetime | None = None
    next_due: datetime | None = None
    overdue: int = 0
    on: tuple[str, ...] = ()
    claimed: tuple[Claimed, ...] = ()
    questions: int = 0


class OnCallPerson(Given):
    """A person who would be asked.

    Attributes:
        id: The id of the person.
        instead_of: The id of the person whom they stand in for; "" for nobody.
    """

    id: str
    instead_of: str = ""


class Shift(Given):
    """A time in which the same people would be asked.

    Attributes:
        start: When it begins; the first one begins at the moment in question.
        until: When it ends, None if nothing changes within a year.
        people: Who would be asked, in this order.
        short: Why these people cannot approve; "" if they can.
        notes: In words: who is left out, and who stands in.
    """

    start: datetime
    until: datetime | None = None
    people: tuple[OnCallPerson, ...] = ()
    short: str = ""
    notes: tuple[str, ...] = ()


class OnCall(Given):
    """Who would be asked by a schedule or a queue.

    Attributes:
        name: ``schedule:on-call`` or ``queue:finance``.
        now: Who would be asked at the moment in question.
        next: Who would be asked after that, None if nothing changes within a year.
        next_request: Who would be asked by the request after the next one, for queues that ask
            one member in turn.
    """

    name: str
    now: Shift
    next: Shift | None = None
    next_request: tuple[OnCallPerson, ...] = ()


class Took(Given):
    """The decision times of a queue.

    Attributes:
        name: The queue, ``queue:finance``; "" for approvals without a queue.
        count: The number of decisions.
        p50: The median, in seconds.
        p90: The 90th percentile, in seconds.
    """

    name: str
    count: int
    p50: float
    p90: float


class Came(Given):
    """Outcomes of one tool in one week.

    Attributes:
        tool: The tool.
        week: The Monday of the week (UTC).
        outcomes: How many ended in each state.
    """

    tool: str
    week: date
    outcomes: dict[State, int]


class Figures(Given):
    """Metrics of the approvals that ended last.

    Attributes:
        count: The number of approvals.
        since: When the first of them ended.
        took: Decision times by queue.
        came: Outcomes by tool and week, the latest week first.
    """

    count: int = 0
    since: datetime | None = None
    took: tuple[Took, ...] = ()
    came: tuple[Came, ...] = ()


class Grant(Given):
    """One person's approval of similar calls.

    Attributes:
        id: Its id.
        state: ``open``, ``revoked``, ``used up`` or ``expired``.
        app: The agent's app.
        agent: The agent that calls the tool.
        tool: The tool.
        requester: The requester's ADK user id.
        policy: The policy of the calls.
        args: The arguments that must be equal.
        vary: The JSON types of the arguments that may differ, by name.
        limits: CEL expressions that must be true for each call.
        by: The id of the person who gave it.
        channel: The channel.
        reason: In the person's own words.
        at: When it was given.
        expires_at: When it expires.
        uses: How many calls it covers.
        used: How many it has decided.
        approval: The approval that it came from.
        revoked_at: When it was revoked, or null.
        revoked_by: Who revoked it.
        revoked_why: The reason.
    """

    id: str
    state: str
    app: str
    agent: str = ""
    tool: str
    requester: str
    policy: str = ""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    vary: dict[str, str] = Field(default_factory=dict)
    limits: tuple[str, ...] = ()
    by: str
    channel: str = ""
    reason: str = ""
    at: datetime
    expires_at: datetime
    uses: int
    used: int = 0
    approval: str
    revoked_at: datetime | None = None
    revoked_by: str = ""
    revoked_why: str = ""


class Freeze(Given):
    """A freeze, which stops tools.

    Attributes:
        id: The id.
        app: The app whose tools do not start; "" for those of all apps.
        tool: The tool that does not start; "" for all.
        stops: What is stopped, in words: ``reimburse()``, ``the app finance``, ``everything``.
        by: Who has set the freeze.
        why: The reason.
        at: When it began.
    """

    id: str
    app: str = ""
    tool: str = ""
    stops: str
    by: str
    why: str
    at: datetime


class Away(Given):
    """An absence of a person.

    Attributes:
        start: The first day, in JSON ``from``.
        end: The last day, in JSON ``to``.
        delegate: The id or address of the delegate, or "".
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    start: date = Field(alias="from", description="The first day, in the person's time zone.")
    end: date = Field(alias="to", description="The last day.")
    delegate: str = ""


class Person(Given):
    """A person and their absences.

    Attributes:
        id: The id.
        name: The name that people read.
        away_now: Whether they are away today.
        away: Absences from today on. If several overlap, the last one applies.
    """

    id: str
    name: str = ""
    away_now: bool = False
    away: tuple[Away, ...] = ()


class Left(Person):
    """A person whose absence was set, and the approvals that waited for them.

    Attributes:
        waiting: The ids of the approvals that still wait for them, the oldest first.
        handed_over: The ids of the approvals that were handed over to the delegate.
        next: What happens to the waiting approvals and how to hand them over, in words.
    """

    waiting: tuple[str, ...] = ()
    handed_over: tuple[str, ...] = ()
    next: str = ""


class Page(Given, Generic[T]):
    """Part of a list, the newest first.

    Attributes:
        items: The items. There may be fewer than `limit`, even none, before the end of the list.
        next: The `cursor` for the next page; null at the end.
    """

    items: tuple[T, ...] = ()
    next: str | None = None
