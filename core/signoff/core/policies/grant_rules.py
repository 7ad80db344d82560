"""How far a policy lets people approve calls beforehand."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from signoff.core.base.durations import Duration
from signoff.core.base.model import Value


class GrantRules(Value):
    """Who may approve similar calls in advance, and how many.

    Attributes:
        who: The ids of the people who may give a grant. They must be approvers of the policy.
        longest: The longest duration of a grant: ``"8h"``.
        most: The most calls that a grant covers.
        vary: The arguments that may differ from those of the approved call. All others must be
            equal.
        limit: A CEL expression over app, agent, tool, args and user that must be true for each
            call. Empty means no further limit.
    """

    who: tuple[str, ...] = Field(min_length=1)
    longest: Duration = timedelta(hours=8)
    most: int = Field(default=20, ge=1, le=1000)
    vary: tuple[str, ...] = ()
    limit: str = ""
