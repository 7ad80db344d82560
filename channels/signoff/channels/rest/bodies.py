"""The request bodies of the REST API, which may have exactly these members."""

from datetime import date

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from signoff.core.approvals.parts import LONGEST_TEXT
from signoff.core.base.text import LONGEST_REASON


class Taken(BaseModel):
    """The base of all request bodies."""

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
    """A reason.

    Attributes:
        reason: In the person's own words. The agent gets the reason of a rejection.
    """

    reason: str = Field("", max_length=LONGEST_REASON)


class Approve(Reason):
    """An approval.

    Attributes:
        reason: In the person's own words.
        digest: The digest of the call that the person was shown. Only that call is approved.
        values: The values for the template, or the answer to a request for input.
        as_it_is: Whether the person approves the call as it is, even if the reason reads like a
            no, a question, a condition or a limit. Without it, such a reason is refused:
            `reason-contradicts`.
    """

    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    values: dict[str, JsonValue] | None = None
    as_it_is: bool = False


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
    """A rejection.

    Attributes:
        reason: In the person's own words. The agent gets it.
        values: For a request for input whose schema expresses a rejection as values.
    """

    values: dict[str, JsonValue] | None = None


class Withdraw(Taken):
    """The withdrawal of a request.

    Attributes:
        reason: The reason, which the agent reads.
    """

    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Words(Taken):
    """A comment or a question.

    Attributes:
        text: In the person's own words.
    """

    text: str = Field(min_length=1, max_length=LONGEST_TEXT)


class Claim(Taken):
    """A claim, which reserves the decision.

    Attributes:
        length: The duration: ``30m``, at most a day. The default is the queue's.
    """

    length: str = Field("", max_length=32)


class Reassign(Taken):
    """The reassignment of an approver's seat.

    Attributes:
        to: The id of the new approver.
        of: The id of the current approver. The default is the token's person.
        reason: The reason.
    """

    to: str = Field(min_length=1, max_length=64)
    of: str = Field("", max_length=64)
    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Extend(Taken):
    """An extension of the deadline.

    Attributes:
        by: The additional time: ``4h``, ``1d``.
        reason: The reason, which the requester can read.
    """

    by: str = Field(min_length=1, max_length=32)
    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Give(Reason):
    """An approval of a call and of similar calls.

    Attributes:
        reason: In the person's own words.
        digest: The digest of the call that the person was shown. A pending approval is approved.
        length: The duration: ``4h``, at most what the policy allows.
        uses: The number of further calls that it covers. The default is the policy's maximum.
        limit: A CEL expression, to cover less than the policy allows: ``args.amount <= 100``.
        as_it_is: Whether the person approves the call as it is, even if the reason reads like a
            no, a question, a condition or a limit.
    """

    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    length: str = Field(min_length=1, max_length=32)
    uses: int | None = Field(None, ge=1, le=1000)
    limit: str = Field("", max_length=2000)
    as_it_is: bool = False


class Revoke(Taken):
    """The revocation of a grant.

    Attributes:
        reason: The reason, for the audit log.
    """

    reason: str = Field(min_length=1, max_length=LONGEST_REASON)


class Freeze(Taken):
    """A freeze, which stops tools.

    Attributes:
        app: The app whose tools are stopped; "" for those of all apps.
        tool: The tool; "" for all tools.
        everything: Whether all tools of all apps are stopped, instead of an app's or one tool.
        why: The reason, which all approvers read.
    """

    app: str = Field("", max_length=64)
    tool: str = Field("", max_length=128)
    everything: bool = False
    why: str = Field(min_length=1, max_length=LONGEST_REASON)


class Thaw(Taken):
    """The end of a freeze.

    Attributes:
        why: The reason, for the audit log.
    """

    why: str = Field("", max_length=LONGEST_REASON)


class Leave(Taken):
    """An absence, in whole days.

    Attributes:
        start: The first day, in JSON ``from``.
        end: The last day, in JSON ``to``.
        delegate: The id or address of the delegate. The default is nobody.
        hand_over: Whether pending requests move from the person to the delegate.
    """

    start: date | None = Field(
        None,
        alias="from",
        description="The first day, in the person's time zone. The default is today.",
    )
    end: date = Field(alias="to", description="The last day.")
    delegate: str = Field("", max_length=254)
    hand_over: bool = False
