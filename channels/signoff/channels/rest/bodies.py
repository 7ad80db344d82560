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
    """A message for an agent.

    Attributes:
        app: The agent.
        message: The user's message.
        user: The ADK user id; a person's token always submits as that person.
        session: An ADK session to continue. The default is a new one.
    """

    app: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")
    message: str = Field(min_length=1, max_length=100_000)
    user: str = Field("", max_length=128)
    session: str = Field("", max_length=128)


class Reason(Taken):
    """Why.

    Attributes:
        reason: In the person's own words. The agent gets the reason of a rejection.
    """

    reason: str = Field("", max_length=LONGEST_REASON)


class Approve(Reason):
    """A yes.

    Attributes:
        reason: In the person's own words.
        digest: The digest of the call that the person was shown. Only that call is approved.
        values: The values for the template, or the answer to a request for input.
    """

    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    values: dict[str, JsonValue] | None = None


class Shown(Taken):
    """One of several calls to approve.

    Attributes:
        id: The approval.
        digest: The digest of the call that the person was shown.
    """

    id: str = Field(min_length=1, max_length=128)
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")


class Together(Taken):
    """An approval of several calls whose policy has `batch`.

    Attributes:
        approvals: The calls, at most 50.
    """

    approvals: tuple[Shown, ...] = Field(min_length=1, max_length=50)


class Reject(Reason):
    """A no.

    Attributes:
        reason: In the person's own words. The agent gets it.
        values: For a request for input whose schema expresses a no as values.
    """

    values: dict[str, JsonValue] | None = None


class Withdraw(Taken):
    """A request is withdrawn.

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
        length: How long: ``30m``, at most a day. The default is the queue's.
    """

    length: str = Field("", max_length=32)


class Reassign(Taken):
    """A seat is reassigned.

    Attributes:
        to: The id of the new approver.
        of: The id of the current approver. The default is the token's person.
        reason: Why.
    """

    to: str = Field(min_length=1, max_length=64)
    of: str = Field("", max_length=64)
    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Extend(Taken):
    """The deadline is moved.

    Attributes:
        by: By how much: ``4h``, ``1d``.
        reason: The reason, which the requester can read.
    """

    by: str = Field(min_length=1, max_length=32)
    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Give(Reason):
    """An approval of a call and of similar calls.

    Attributes:
        reason: In the person's own words.
        digest: The digest of the call that the person was shown. A pending approval is approved.
        length: How long: ``4h``, at most what the policy allows.
        uses: How many further calls it covers. The default is the policy's maximum.
        limit: A CEL expression, to cover less than the policy allows: ``args.amount <= 100``.
    """

    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    length: str = Field(min_length=1, max_length=32)
    uses: int | None = Field(None, ge=1, le=1000)
    limit: str = Field("", max_length=2000)


class Revoke(Taken):
    """A grant is revoked.

    Attributes:
        reason: The reason, for the audit log.
    """

    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Freeze(Taken):
    """Tools are stopped.

    Attributes:
        app: The app whose tools are stopped; "" for those of all apps.
        tool: The tool; "" for all tools.
        everything: Whether all tools of all apps are stopped, in the place of an app or a tool.
        why: The reason, which everybody who is asked reads.
    """

    app: str = Field("", max_length=64)
    tool: str = Field("", max_length=128)
    everything: bool = False
    why: str = Field(min_length=1, max_length=LONGEST_REASON)


class Thaw(Taken):
    """A freeze ends.

    Attributes:
        why: The reason, for the audit log.
    """

    why: str = Field("", max_length=LONGEST_REASON)


class Leave(Taken):
    """Days on which somebody is away.

    Attributes:
        start: The first day, in JSON ``from``.
        end: The last day, in JSON ``to``.
        delegate: The id or address of the delegate. The default is nobody.
        hand_over: Whether the delegate alone gets what already waits for the person.
    """

    start: date | None = Field(
        None,
        alias="from",
        description="The first day, in the person's time zone. The default is today.",
    )
    end: date = Field(alias="to", description="The last day.")
    delegate: str = Field("", max_length=254)
    hand_over: bool = False
