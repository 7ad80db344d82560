"""The diagrams of the documentation, rendered from the tables they show."""

from __future__ import annotations

from signoff.core.approvals.approval import HANDOFFS, TRANSITIONS, Handoff, State
from signoff.core.approvals.run import RUN_TRANSITIONS, RunState


def _mermaid(first: str, edges: list[tuple[str, str, str]], last: list[str]) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {first}"]
    lines += [
        f"    {source} --> {to}" + (f": {label}" if label else "") for source, to, label in edges
    ]
    lines += [f"    {state} --> [*]" for state in last]
    return "\n".join(lines) + "\n"


def approval_diagram() -> str:
    """Return the life of an approval as a Mermaid state diagram."""
    sources = {state for state, _ in TRANSITIONS}
    return _mermaid(
        State.PENDING,
        [(source, to, move) for (source, move), to in TRANSITIONS.items()],
        [state for state in State if state not in sources],
    )


def handoff_diagram() -> str:
    """Return the way of an answer into the agent as a Mermaid state diagram."""
    return _mermaid(
        Handoff.NONE,
        [(source, to, "") for source in HANDOFFS for to in Handoff if to in HANDOFFS[source]],
        [state for state in Handoff if not HANDOFFS[state]],
    )


def run_diagram() -> str:
    """Return the life of a run as a Mermaid state diagram."""
    return _mermaid(
        RunState.QUEUED,
        [
            (source, to, "")
            for source in RUN_TRANSITIONS
            for to in RunState
            if to in RUN_TRANSITIONS[source]
        ],
        [state for state in RunState if not RUN_TRANSITIONS[state]],
    )
