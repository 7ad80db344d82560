"""The values of search filters, in a module that the command line can import quickly."""

from __future__ import annotations

from enum import StrEnum


class Sort(StrEnum):
    """The order of a list."""

    OLDEST = "oldest"
    DUE = "due"
    NEWEST = "newest"


class Status(StrEnum):
    """The state of an approval, with pending ones by what they wait for."""

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
