"""The tables of an approval's life: what can happen to it, and how its answer gets to the agent."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Where an approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"


class Move(StrEnum):
    """What can happen to an approval."""

    APPROVE = "approve"
    REJECT = "reject"
    TIME_OUT = "time_out"
    WITHDRAW = "withdraw"
    SUPERSEDE = "supersede"


TRANSITIONS: Mapping[tuple[State, Move], State] = {
    (State.PENDING, Move.APPROVE): State.APPROVED,
    (State.PENDING, Move.REJECT): State.REJECTED,
    (State.PENDING, Move.TIME_OUT): State.TIMED_OUT,
    (State.PENDING, Move.WITHDRAW): State.WITHDRAWN,
    (State.PENDING, Move.SUPERSEDE): State.SUPERSEDED,
}


class Handoff(StrEnum):
    """How far the answer has come on its way into the agent."""

    NONE = "none"
    RECORDED = "recorded"
    STARTED = "started"
    FINISHED = "finished"
    RESUMED = "resumed"
    IN_DOUBT = "in_doubt"
    EXPIRED = "expired"
    """The yes was older than it is good for before the call could be started; it is asked again."""
    FAILED = "failed"


HANDOFFS: Mapping[Handoff, frozenset[Handoff]] = {
    Handoff.NONE: frozenset({Handoff.RECORDED}),
    Handoff.RECORDED: frozenset(
        {Handoff.STARTED, Handoff.RESUMED, Handoff.EXPIRED, Handoff.FAILED}
    ),
    Handoff.STARTED: frozenset({Handoff.FINISHED, Handoff.IN_DOUBT}),
    Handoff.FINISHED: frozenset({Handoff.RESUMED, Handoff.FAILED}),
    # Run again, where the policy says that this tool may be.
    Handoff.IN_DOUBT: frozenset({Handoff.RECORDED}),
    Handoff.RESUMED: frozenset(),
    Handoff.EXPIRED: frozenset(),
    Handoff.FAILED: frozenset(),
}
