"""What the REST API gives beside runs, approvals and the audit: queues, figures, grants, people."""

from __future__ import annotations

from datetime import date, datetime

from pydantic import ConfigDict, Field, JsonValue

from signoff.client.models import Claimed, Given
from signoff.core.approvals.lifecycle import State


class Queue(Given):
    """Pending approvals of a queue, a person, or all.

    Attributes:
        name: ``queue:finance``, the id of a person, or ``all``.
        waiting: How many are pending.
        oldest: When the oldest was opened.
        next_due: The next deadline.
        overdue: How many are overdue and stay open.
        on: The ids of people who may answer now, sorted by how many they may answer.
        claimed: The claims, the next to expire first.
        questions: How many wait for the requester.
    """

    name: str
    waiting: int = 0
    oldest: datetime | None = None
    next_due: datetime | None = None
    overdue: int = 0
    on: tuple[str, ...] = ()
    claimed: tuple[Claimed, ...] = ()
    questions: int = 0


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
        limits: CEL expressions that have to be true of each call.
        by: The id of the giver.
        channel: How it came.
        reason: In the person's own words.
        at: When it was given.
        expires_at: When it expires.
        uses: How many calls it covers.
        used: How many it has decided.
        approval: The approval that it came from.
        revoked_at: When it was revoked, or null.
        revoked_by: Who revoked it.
        revoked_why: Why.
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


class Away(Given):
    """Days on which somebody is away.

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
        away: Absences from today on. Where several overlap, the last one applies.
    """

    id: str
    name: str = ""
    away_now: bool = False
    away: tuple[Away, ...] = ()
