"""The tables of an approval's life and of its answer's way to the agent, and their diagrams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

S = TypeVar("S", bound=StrEnum)


class State(StrEnum):
    """The state of an approval."""

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
    """How far a decision has reached the agent."""

    NONE = "none"
    RECORDED = "recorded"
    STARTED = "started"
    FINISHED = "finished"
    RESUMED = "resumed"
    IN_DOUBT = "in_doubt"
    EXPIRED = "expired"
    """The yes was older than it is good for before the call could be started; it is asked again."""
    VOID = "void"
    """The answer is not proven, or the call has changed since; it is asked again."""
    FAILED = "failed"


HANDOFFS: Mapping[Handoff, frozenset[Handoff]] = {
    Handoff.NONE: frozenset({Handoff.RECORDED}),
    Handoff.RECORDED: frozenset(
        {Handoff.STARTED, Handoff.RESUMED, Handoff.EXPIRED, Handoff.VOID, Handoff.FAILED}
    ),
    # Void, where a node of a workflow turns out not to have run: it counts as started before.
    Handoff.STARTED: frozenset({Handoff.FINISHED, Handoff.IN_DOUBT, Handoff.VOID}),
    Handoff.FINISHED: frozenset({Handoff.RESUMED, Handoff.FAILED}),
    # Run again, where the policy says that this tool may be; finished, if a program reports late.
    Handoff.IN_DOUBT: frozenset({Handoff.RECORDED, Handoff.FINISHED}),
    Handoff.RESUMED: frozenset(),
    Handoff.EXPIRED: frozenset(),
    Handoff.VOID: frozenset(),
    Handoff.FAILED: frozenset(),
}


def approval_diagram() -> str:
    """Return the life of an approval as a Mermaid state diagram."""
    sources = {state for state, _ in TRANSITIONS}
    return mermaid(
        State.PENDING,
        [(source, to, move) for (source, move), to in TRANSITIONS.items()],
        [state for state in State if state not in sources],
    )


def handoff_diagram() -> str:
    """Return the way of an answer into the agent as a Mermaid state diagram."""
    return steps_diagram(Handoff.NONE, HANDOFFS)


def steps_diagram(first: str, steps: Mapping[S, frozenset[S]]) -> str:
    """Return the steps from each state to others as a Mermaid state diagram.

    Args:
        first: The state in which everything begins.
        steps: By state, in the order of the states: which ones may follow.
    """
    edges = [(source, to, "") for source in steps for to in steps if to in steps[source]]
    return mermaid(first, edges, [state for state in steps if not steps[state]])


def mermaid(first: str, edges: Sequence[tuple[str, str, str]], last: Iterable[str]) -> str:
    """Return a state diagram in the language of Mermaid.

    Args:
        first: The state in which everything begins.
        edges: From where to where, and the label, "" for none.
        last: The states in which everything ends.
    """
    lines = ["stateDiagram-v2", f"    [*] --> {first}"]
    lines += [
        f"    {source} --> {to}" + (f": {label}" if label else "") for source, to, label in edges
    ]
    lines += [f"    {state} --> [*]" for state in last]
    return "\n".join(lines) + "\n"
