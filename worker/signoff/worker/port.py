"""The port to agent runtimes: two verbs, each of which runs an agent to its next pause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from pydantic import JsonValue

from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Kind, Origin, ToolCall
from signoff.core.approvals.run import Run
from signoff.core.base.model import Value

Fence = Callable[[Change], Change]
"""Adds to a change the condition that the session's lease is still ours."""

TRANSIENT: Final = frozenset(
    {
        "APIConnectionError",  # of the clients of models
        "ConnectionError",  # of redis-py, which is not the builtin
        "InterfaceError",
        "OperationalError",
        "ServerError",
        "StaleSessionError",
        "TimeoutError",
    }
)
"""Names of foreign errors that say "not now": a locked or restarting database, a busy model."""


class Pause(Value):
    """One tool call, or one request for input, that waits for a person.

    Attributes:
        origin: Where it comes from.
        kind: What is asked for.
        call: The call; of a request for input, the request.
        hint: The tool's words.
        template: Its payload template, None where there is none.
        said: What the agent said before the call, "" where nothing.
        declared: What the tool declares; see `Approval.declared`.
    """

    origin: Origin
    kind: Kind = Kind.CONFIRMATION
    call: ToolCall
    hint: str = ""
    template: JsonValue = None
    said: str = ""
    declared: str = ""


class Turn(Value):
    """How a turn of an agent ended: with calls that wait for somebody, or with its last word.

    Attributes:
        pauses: What waits.
        text: The agent's last word.
        left_open: Names of long-running calls that nobody is asked about: their results
            come from elsewhere.
        note: What else is to be said of its end in the trail, "" for nothing.
        kept: The ids of the answers that the agent was not given: they stay in its pause, until
            what else waits in it is answered.
    """

    pauses: tuple[Pause, ...] = ()
    text: str = ""
    left_open: tuple[str, ...] = ()
    note: str = ""
    kept: tuple[str, ...] = ()


class Runtime(Protocol):
    """What a worker needs of an agent runtime."""

    async def start(self, run: Run, fence: Fence) -> Turn:
        """Say the user's message and run to the next pause or to the end."""

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> Turn:
        """Answer these approvals of a pause and run to the next pause or to the end."""

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Say whether these approvals of a pause may be answered in parts."""
