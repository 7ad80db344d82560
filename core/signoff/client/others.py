"""What the REST API gives beside runs, approvals and the audit: queues, figures, grants, people."""

from __future__ import annotations

from datetime import date, datetime

from pydantic import ConfigDict, Field, JsonValue

from signoff.client.models import Claimed, Given
from signoff.core.approvals.lifecycle import State


class Queue(Given):
    """What waits in one queue, for one person, or altogether.

    Attributes:
        name: ``queue:finance``, the id of a person, or ``all``.
        waiting: How many approvals wait.
        oldest: When the one that has waited longest was opened.
        next_due: The next deadline.
        overdue: How many are beyond their deadlines and stay open.
        on: The ids of those who may answer now, whoever may answer most of them first.
        claimed: What somebody has claimed, the claim that ends first at the beginning.
        questions: How many wait for an answer of the requester.
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
    """How long people took to decide.

    Attributes:
        name: The queue, ``queue:finance``; "" for what no queue was asked.
        count: How many decisions.
        p50: Half of them took no longer, in seconds.
        p90: Nine of ten took no longer, in seconds.
    """

    name: str
    count: int
    p50: float
    p90: float


class Came(Given):
    """What came of the calls of one tool that ended in one week.

    Attributes:
        tool: The tool.
        week: The Monday of the week (UTC).
        outcomes: How many ended in each state.
    """

    tool: str
    week: date
    outcomes: dict[State, int]


class Figures(Given):
    """What can be said of the approvals that ended last.

    Attributes:
        count: How many there were.
        since: When the first of them ended.
        took: How long people took, in each queue.
        came: What came of them, by tool and week, the latest week first.
    """

    count: int = 0
    since: datetime | None = None
    took: tuple[Took, ...] = ()
    came: tuple[Came, ...] = ()


class Grant(Given):
    """One person's yes to calls like one that they have approved.

    Attributes:
        id: Its id.
        state: ``open``, ``revoked``, ``used up`` or ``expired``.
        app: The agent's app.
        agent: The agent that calls the tool.
        tool: The tool.
        requester: The ADK user id for whose calls it is.
        policy: The policy under which the calls fall.
        args: The arguments that have to be equal.
        vary: The JSON types of the arguments whose values may differ, by name.
        limits: CEL expressions that have to be true of each call.
        by: The id of the person who has given it.
        channel: How it came.
        reason: In the person's own words.
        at: When it was given.
        expires_at: From when on it covers nothing.
        uses: How many calls it covers.
        used: How many it has covered.
        approval: The approval that it came from.
        revoked_at: When it was revoked, null while it was not.
        revoked_by: Who has revoked it.
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
        delegate: The id or an address of whoever decides instead, "" for nobody.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    start: date = Field(alias="from", description="The first day, where the person is.")
    end: date = Field(alias="to", description="The last day.")
    delegate: str = ""


class Person(Given):
    """Somebody of the directory, and when they are away.

    Attributes:
        id: The id.
        name: The name that people read.
        away_now: Whether they are away today.
        away: Their absences, from today on; of several of one day the last one rules.
    """

    id: str
    name: str = ""
    away_now: bool = False
    away: tuple[Away, ...] = ()
