"""What the REST API takes: the bodies of requests, with exactly these members."""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from signoff.core.approvals.parts import LONGEST_TEXT
from signoff.core.base.text import LONGEST_REASON


class Taken(BaseModel):
    """What the gateway takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Submit(Taken):
    """Something to say to an agent.

    Attributes:
        app: The agent.
        message: What the user says.
        user: The ADK user id; a person's token always submits as that person.
        session: An ADK session to go on with; a new one is made where none is given.
    """

    app: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")
    message: str = Field(min_length=1, max_length=100_000)
    user: str = Field("", max_length=128)
    session: str = Field("", max_length=128)


class Reason(Taken):
    """Why.

    Attributes:
        reason: In the person's own words; the agent reads the reason of a rejection.
    """

    reason: str = Field("", max_length=LONGEST_REASON)


class Approve(Reason):
    """A yes.

    Attributes:
        reason: In the person's own words.
        digest: Of the approval that the person was shown: only that call is approved.
        values: For the approval's template, or the answer to a request for input.
    """

    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    values: dict[str, JsonValue] | None = None


class Shown(Taken):
    """One of several calls that are approved together.

    Attributes:
        id: The approval.
        digest: Of the call that the person was shown.
    """

    id: str = Field(min_length=1, max_length=128)
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")


class Together(Taken):
    """A yes to several calls, of those that their policy calls harmless.

    Attributes:
        approvals: The calls, 50 at most.
    """

    approvals: tuple[Shown, ...] = Field(min_length=1, max_length=50)


class Reject(Reason):
    """A no.

    Attributes:
        reason: In the person's own words; the agent reads it.
        values: For a request for input whose schema says no by values.
    """

    values: dict[str, JsonValue] | None = None


class Withdraw(Taken):
    """A question is taken back.

    Attributes:
        reason: Why; the agent reads it.
    """

    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Words(Taken):
    """Something to say.

    Attributes:
        text: In the person's own words.
    """

    text: str = Field(min_length=1, max_length=LONGEST_TEXT)


class Claim(Taken):
    """A decision is reserved.

    Attributes:
        length: For how long: ``30m``, a day at most; as the queue says where none is given.
    """

    length: str = Field("", max_length=32)


class Reassign(Taken):
    """A place is given to another person.

    Attributes:
        to: The id of the person who decides from now on.
        of: The id of the person whose place it is; the token's person where none is given.
        reason: Why.
    """

    to: str = Field(min_length=1, max_length=64)
    of: str = Field("", max_length=64)
    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Extend(Taken):
    """The deadline is moved.

    Attributes:
        by: How much: ``4h``, ``1d``.
        reason: Why; whoever waits reads it.
    """

    by: str = Field(min_length=1, max_length=32)
    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Give(Reason):
    """A yes to a call, and to calls like it for a while.

    Attributes:
        reason: In the person's own words.
        digest: Of the approval that the person was shown; one that waits is approved.
        length: For how long: ``4h``; as long as the policy allows at most.
        uses: How many calls it covers besides this one; as many as the policy allows where none.
        limit: A CEL expression, to cover less than the policy allows: ``args.amount <= 100``.
    """

    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    length: str = Field(min_length=1, max_length=32)
    uses: int | None = Field(None, ge=1, le=1000)
    limit: str = Field("", max_length=2000)


class Revoke(Taken):
    """A grant is taken back.

    Attributes:
        reason: Why; it stands in the audit.
    """

    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Leave(Taken):
    """Days on which somebody is away.

    Attributes:
        start: The first day, in JSON ``from``.
        end: The last day, in JSON ``to``.
        delegate: The id or an address of whoever decides instead; nobody where none is given.
    """

    start: date | None = Field(
        None,
        alias="from",
        description="The first day, where the person is; today where none is given.",
    )
    end: date = Field(alias="to", description="The last day.")
    delegate: str = Field("", max_length=254)
