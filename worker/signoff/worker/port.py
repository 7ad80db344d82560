"""The port to agent runtimes: two verbs, each of which runs an agent to its next pause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pydantic import JsonValue

from signoff.broker.change import Change
from signoff.core.approval import Approval
from signoff.core.model import Value
from signoff.core.parts import Origin, ToolCall
from signoff.core.run import Run

Fence = Callable[[Change], Change]
"""Adds to a change the condition that the session's lease is still ours."""


class Pause(Value):
    """One tool call that waits for a person.

    Attributes:
        origin: Where it comes from.
        call: The call.
        hint: The tool's words.
        template: Its payload template, None where there is none.
    """

    origin: Origin
    call: ToolCall
    hint: str = ""
    template: JsonValue = None


class Turn(Value):
    """How a turn of an agent ended: with tool calls that wait, or with the agent's last word."""

    pauses: tuple[Pause, ...] = ()
    text: str = ""


class Runtime(Protocol):
    """What a worker needs of an agent runtime."""

    async def start(self, run: Run) -> Turn:
        """Say the user's message and run to the next pause or to the end."""

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> Turn:
        """Answer these approvals of a pause and run to the next pause or to the end."""

    def resumes_each(self, app: str) -> bool:
        """Say whether a pause of this app may be answered in parts."""
