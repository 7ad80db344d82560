"""About what those who asked for an approval are told, as policies and people say it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class NotifyOn(StrEnum):
    """About what the requester is told."""

    WAITING = "waiting"
    """That it waits, and for whom: when people are asked, and when the next phase is."""
    ESCALATED = "escalated"
    """That nobody decided in time: it went on to others, or stays open although it is overdue."""
    DECIDED = "decided"
    """That it was approved, rejected, with the reason, withdrawn, or timed out."""
    DONE = "done"
    """That the approved call is done, with its result, or that it could not be carried out."""


USUALLY: Final = (NotifyOn.DECIDED, NotifyOn.DONE)
"""How it ended, which is one message where the call is done soon after the decision.

The requester knows that it waits: their agent has just said so. That others are asked now is news
for which there is nothing to do.
"""
