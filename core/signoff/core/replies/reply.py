"""What a reply means, one class for each kind."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal

from pydantic import JsonValue

from signoff.core.model import Value


class Part(Value):
    """A part of a reply, and what it was read as.

    Attributes:
        text: As it was typed.
        role: ``yes``, ``no``, ``courtesy``, ``note``, ``left over`` and so on.
    """

    text: str
    role: str


class Reply(Value):
    """What a reply means.

    Attributes:
        parts: What it was read as, in its order; empty where nothing was recognised.
    """

    parts: tuple[Part, ...] = ()


class Grant(Value):
    """The wish that similar calls are approved too.

    Attributes:
        span: For how long.
        uses: For how many calls at most, None for as many as the policy allows.
    """

    span: timedelta
    uses: int | None = None


class Approve(Reply):
    """A yes, and nothing in the text that is not known to be harmless.

    Attributes:
        values: The values given for what the request asks for, None where none were given.
        note: What stands behind ``note:``; shown on cards and in the audit, decides nothing.
        grant: Set where similar calls are approved too.
    """

    values: dict[str, JsonValue] | None = None
    note: str = ""
    grant: Grant | None = None


class Reject(Reply):
    """A no.

    Attributes:
        reason: Everything beside it; empty where there is nothing.
        values: The answer that says no, where any text or JSON was asked for; else None.
    """

    reason: str = ""
    values: dict[str, JsonValue] | None = None


class Unclear(Reply):
    """Neither; nothing is decided, and the person is asked back.

    Attributes:
        problem: Why, in words for the person.
        seems: What it would be without `left_over`.
        left_over: The exact words that were too many.
        grants: Whether it speaks of similar calls, in a form that cannot be read.
    """

    problem: str
    seems: Literal["approve", "reject", ""] = ""
    left_over: tuple[str, ...] = ()
    grants: bool = False


class Claim(Reply):
    """They will decide themselves, for a while.

    Attributes:
        length: For how long, None for the usual while.
    """

    length: timedelta | None = None


class Release(Reply):
    """They give their claim back."""

    reason: str = ""


class Reassign(Reply):
    """They hand the request on.

    Attributes:
        to: To whom, as it was written.
        reason: Why.
    """

    to: str
    reason: str


class Ask(Reply):
    """They ask the requester."""

    text: str


class Comment(Reply):
    """They leave a comment for everybody who was asked."""

    text: str


class Extend(Reply):
    """They move the deadline.

    Attributes:
        length: By how much.
        reason: Why.
    """

    length: timedelta
    reason: str


class Remind(Reply):
    """They have the others reminded."""


class Withdraw(Reply):
    """The requester takes the request back."""

    reason: str = ""


class Revoke(Reply):
    """They take back that similar calls are approved."""

    reason: str = ""


class Away(Reply):
    """They are away.

    Attributes:
        start: The first day, None for today.
        end: The last day.
        delegate: Who decides instead, as it was written; "" for nobody.
    """

    start: date | None = None
    end: date
    delegate: str = ""


class Back(Reply):
    """They are back."""
