"""The meanings of replies, one class for each kind."""

from datetime import date, timedelta
from typing import Literal

from pydantic import JsonValue

from signoff.core.base.model import Value


class Part(Value):
    """A part of a reply, and its role.

    Attributes:
        text: The original text.
        role: ``yes``, ``no``, ``courtesy``, ``note``, ``left over`` and so on.
    """

    text: str
    role: str


class Reply(Value):
    """The meaning of a reply.

    Attributes:
        parts: The parts of the text, in order; empty if nothing was recognised.
    """

    parts: tuple[Part, ...] = ()


class Grant(Value):
    """The wish to approve similar calls too.

    Attributes:
        span: How long the grant is valid.
        uses: How many calls it covers at most, None for as many as the policy allows.
    """

    span: timedelta
    uses: int | None = None


class Approve(Reply):
    """An approval. Everything else in the text is known to be harmless.

    Attributes:
        values: The values for the fields of the request, None if there are none.
        note: The text after ``note:``, which is shown on cards and in the audit.
        grant: The grant for similar calls, None if there is none.
    """

    values: dict[str, JsonValue] | None = None
    note: str = ""
    grant: Grant | None = None


class Reject(Reply):
    """A rejection.

    Attributes:
        reason: The rest of the text, "" if there is none.
        values: The answer that says no, if the request takes any text or JSON; otherwise None.
    """

    reason: str = ""
    values: dict[str, JsonValue] | None = None


class Unclear(Reply):
    """An unclear reply, which decides nothing. The person is asked to reply again.

    Attributes:
        problem: The reason, in words for the person.
        seems: The probable decision, "" if there is none.
        left_over: The exact words that were not understood.
        grants: Whether it mentions similar calls in a form that cannot be read.
    """

    problem: str
    seems: Literal["approve", "reject", ""] = ""
    left_over: tuple[str, ...] = ()
    grants: bool = False


class Claim(Reply):
    """Claim the request.

    Attributes:
        length: How long the claim lasts, None for the default.
    """

    length: timedelta | None = None


class Release(Reply):
    """Release a claim."""

    reason: str = ""


class Reassign(Reply):
    """Hand over the request to another person.

    Attributes:
        to: The other person, as it was written.
        reason: The reason.
    """

    to: str
    reason: str


class Ask(Reply):
    """Ask the requester a question."""

    text: str


class Comment(Reply):
    """Add a comment, which everybody who was asked can read."""

    text: str


class Extend(Reply):
    """Extend the deadline.

    Attributes:
        length: The time to add.
        reason: The reason.
    """

    length: timedelta
    reason: str


class Remind(Reply):
    """Remind the approvers who have not answered."""


class Withdraw(Reply):
    """Withdraw the request, as its requester."""

    reason: str = ""


class Revoke(Reply):
    """Revoke the grant for similar calls."""

    reason: str = ""


class Away(Reply):
    """Set an absence.

    Attributes:
        start: The first day, None for today.
        end: The last day.
        delegate: The delegate, as it was written; "" for nobody.
    """

    start: date | None = None
    end: date
    delegate: str = ""


class Back(Reply):
    """End an absence."""
