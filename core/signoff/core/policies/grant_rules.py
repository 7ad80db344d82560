"""How far a policy lets people approve calls beforehand."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from signoff.core.base.durations import Duration
from signoff.core.base.model import Value


class GrantRules(Value):
    """Who may approve calls like one that is asked about beforehand, and how far that goes.

    Attributes:
        who: Ids of the people who may give a grant; they have to be asked by the policy too.
        longest: The longest time for which one can be given: ``"8h"``.
        most: The most calls that one covers.
        vary: Names of arguments whose values may differ from those of the call that was approved;
            all others have to be the same.
        limit: A CEL expression over app, agent, tool, args and user, which has to be true of each
            call that a grant covers; empty is no further limit.
    """

    who: tuple[str, ...] = Field(min_length=1)
    longest: Duration = timedelta(hours=8)
    most: int = Field(default=20, ge=1, le=1000)
    vary: tuple[str, ...] = ()
    limit: str = ""
