"""The interface of agent runtimes: each starts and resumes runs, to their next pause."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from pydantic import Field, JsonValue

from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Kind, Origin, ToolCall
from signoff.core.approvals.run import Run
from signoff.core.base.model import Value

Fence = Callable[[Change], Change]
"""Adds to a change the condition that the session's lease is still ours."""

TRANSIENT: Final = frozenset(
    {
        "APIConnectionError",  # from the clients of models
        "ConnectionError",  # from redis-py; it is not the builtin class
        "InterfaceError",
        "OperationalError",
        "ServerError",
        "StaleSessionError",
        "TimeoutError",
    }
)
"""Names of foreign errors after which a turn is retried: the database or the model is busy."""


class Pause(Value):
    """One tool call, or one request for input, that waits for a person.

    Attributes:
        origin: Where it comes from.
        kind: What is asked for.
        call: The call; of a request for input, the request.
        hint: The tool's hint for the approver.
        template: Its payload template; None if it has none.
        said: The agent's text before the call; "" if there is none.
        declared: What the tool declares; see `Approval.declared`.
    """

    origin: Origin
    kind: Kind = Kind.CONFIRMATION
    call: ToolCall
    hint: str = ""
    template: JsonValue = None
    said: str = ""
    declared: str = ""


class TurnResult(Value):
    """How a turn of an agent ended: with calls that wait, or with its last message.

    Attributes:
        pauses: The calls and requests that wait.
        text: The agent's last message.
        left_open: The names of long-running calls that nobody is asked about, because their results
            come from elsewhere.
        note: A remark about the end of the run for the audit; "" for none.
        changed: The reasons why approved nodes of a workflow have not run, as sentences, by the ids
            of their approvals. A pause may ask about a node as it would run now.
        kept: The ids of the answers that the agent was not given. They stay in the pause until its
            other calls are answered.
    """

    pauses: tuple[Pause, ...] = ()
    text: str = ""
    left_open: tuple[str, ...] = ()
    note: str = ""
    changed: dict[str, str] = Field(default_factory=dict)
    kept: tuple[str, ...] = ()


class Runtime(Protocol):
    """Runs agents for the executor."""

    async def start(self, run: Run, fence: Fence) -> TurnResult:
        """Send the user's message, and run to the next pause or to the end."""

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> TurnResult:
        """Answer these approvals of a pause, and run to the next pause or to the end."""

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Return whether these approvals of a pause may be answered separately."""
