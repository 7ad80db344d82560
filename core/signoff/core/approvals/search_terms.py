"""The words in which approvals are searched for; cheap to import, for the command line."""

from __future__ import annotations

from enum import StrEnum


class Sort(StrEnum):
    """What comes first."""

    OLDEST = "oldest"
    DUE = "due"
    NEWEST = "newest"


class Standing(StrEnum):
    """Where an approval stands, and those that wait by what they wait for."""

    PENDING = "pending"
    FREE = "free"
    CLAIMED = "claimed"
    QUESTION = "question"
    APPROVED = "approved"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"


class Due(StrEnum):
    """When the present level of an approval ends."""

    OVERDUE = "overdue"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
