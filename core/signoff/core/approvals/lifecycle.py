"""The states of an approval and the steps of its handoff to the agent, and their diagrams."""

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
    """No move leads here. The name is kept, because the REST API and settings know it."""


class Transition(StrEnum):
    """The moves that end an approval."""

    APPROVE = "approve"
    REJECT = "reject"
    TIME_OUT = "time_out"
    WITHDRAW = "withdraw"


TRANSITIONS: Mapping[tuple[State, Transition], State] = {
    (State.PENDING, Transition.APPROVE): State.APPROVED,
    (State.PENDING, Transition.REJECT): State.REJECTED,
    (State.PENDING, Transition.TIME_OUT): State.TIMED_OUT,
    (State.PENDING, Transition.WITHDRAW): State.WITHDRAWN,
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
    """The approval expired before the call was started; people are asked again."""
    VOID = "void"
    """The decision is not proven, or the call has changed since; people are asked again."""
    FAILED = "failed"


HANDOFFS: Mapping[Handoff, frozenset[Handoff]] = {
    Handoff.NONE: frozenset({Handoff.RECORDED}),
    Handoff.RECORDED: frozenset(
        {Handoff.STARTED, Handoff.RESUMED, Handoff.EXPIRED, Handoff.VOID, Handoff.FAILED}
    ),
    # A workflow node counts as started before it runs, so it can turn out not to have run: void.
    Handoff.STARTED: frozenset({Handoff.FINISHED, Handoff.IN_DOUBT, Handoff.VOID}),
    Handoff.FINISHED: frozenset({Handoff.RESUMED, Handoff.FAILED}),
    # Recorded, if the policy allows another run of this tool; finished, if a program reports late.
    Handoff.IN_DOUBT: frozenset({Handoff.RECORDED, Handoff.FINISHED}),
    Handoff.RESUMED: frozenset(),
    Handoff.EXPIRED: frozenset(),
    Handoff.VOID: frozenset(),
    Handoff.FAILED: frozenset(),
}


def approval_diagram() -> str:
    """Return the states of an approval as a Mermaid state diagram."""
    sources = {state for state, _ in TRANSITIONS}
    return mermaid(
        State.PENDING,
        [(source, to, move) for (source, move), to in TRANSITIONS.items()],
        [state for state in TRANSITIONS.values() if state not in sources],
    )


def handoff_diagram() -> str:
    """Return the steps of the handoff to the agent as a Mermaid state diagram."""
    return steps_diagram(Handoff.NONE, HANDOFFS)


def steps_diagram(first: str, steps: Mapping[S, frozenset[S]]) -> str:
    """Return the steps from each state to others as a Mermaid state diagram.

    Args:
        first: The first state.
        steps: The states that may follow each state, in the order of the states.
    """
    edges = [(source, to, "") for source in steps for to in steps if to in steps[source]]
    return mermaid(first, edges, [state for state in steps if not steps[state]])


def mermaid(first: str, edges: Sequence[tuple[str, str, str]], last: Iterable[str]) -> str:
    """Return a Mermaid state diagram.

    Args:
        first: The first state.
        edges: The source, the target and the label of each edge; the label is "" for none.
        last: The final states.
    """
    lines = ["stateDiagram-v2", f"    [*] --> {first}"]
    lines += [
        f"    {source} --> {to}" + (f": {label}" if label else "") for source, to, label in edges
    ]
    lines += [f"    {state} --> [*]" for state in last]
    return "\n".join(lines) + "\n"
