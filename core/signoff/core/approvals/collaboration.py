"""The parts of the moves that decide nothing: claims, comments, extensions, and who makes them."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from signoff.core.base.model import Value
from signoff.core.base.text import clean_text
from signoff.core.directory.people import Person

CLAIM: Final = timedelta(minutes=30)
"""How long a claim holds where nobody says."""

QUEUE: Final = "queue:"
"""What a reference to a queue begins with."""

LONGEST_CLAIM: Final = timedelta(hours=24)
"""How long one person keeps a decision at most, however often they renew the claim."""

LONGEST_TEXT: Final = 2_000
MOST_COMMENTS: Final = 50


class Operator(Value):
    """Whoever runs Signoff, at the command line or by role: puts things right, and decides nothing.

    Attributes:
        name: For the audit: ``root (cli)``, or the id of the person with the role.
    """

    name: str

    @property
    def id(self) -> str:
        """What stands in the audit."""
        return self.name

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.name


Who = Person | Operator


class Claim(Value):
    """A decision that one person has reserved for a while.

    Attributes:
        by: The id of the person.
        at: Since when (UTC).
        until: When it ends by itself (UTC).
        since: When it was claimed first (UTC), where it was renewed since.
    """

    by: str
    at: datetime
    until: datetime
    since: datetime | None = None

    @property
    def first(self) -> datetime:
        """When it was claimed first (UTC)."""
        return self.since or self.at


class Sort(StrEnum):
    """What a comment is."""

    COMMENT = "comment"
    QUESTION = "question"
    """To the requester."""
    ANSWER = "answer"
    """Of the requester."""


class Comment(Value):
    """What somebody has said about a question, for all who see its card.

    Attributes:
        by: The id of the person.
        at: When (UTC).
        text: What, at most 2,000 characters.
        sort: A comment, a question to the requester, or the requester's answer.
    """

    by: str
    at: datetime
    text: str
    sort: Sort = Sort.COMMENT


class Extension(Value):
    """Time that was added to a deadline.

    Attributes:
        by: Who has added it.
        at: When (UTC).
        more: How much.
        reason: Why.
        level: The index of the level that it was added to.
        round: How often the levels had been gone through then.
    """

    by: str
    at: datetime
    more: timedelta
    reason: str
    level: int = 0
    round: int = 0


def cleaned(text: str) -> str:
    """Return what somebody has said as it is kept, at most 2,000 characters."""
    return clean_text(text).strip()[:LONGEST_TEXT].strip()
