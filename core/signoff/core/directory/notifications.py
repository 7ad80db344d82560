"""The topics of notifications for requesters, as in the settings of policies and people."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class NotifyOn(StrEnum):
    """A topic about which requesters are notified."""

    WAITING = "waiting"
    """People are asked, or the next phase is asked."""
    ESCALATED = "escalated"
    """Nobody decided in time: it was escalated, or stays open although it is overdue."""
    DECIDED = "decided"
    """It was approved, rejected, withdrawn or timed out, with the reason."""
    DONE = "done"
    """The approved call is done, with its result, or could not be carried out."""


USUALLY: Final = (NotifyOn.DECIDED, NotifyOn.DONE)
"""The default: the decision and the result, in one message if the call is done soon afterwards.

Requesters know from their agent that the request waits. They can do nothing about an escalation.
"""
