"""The interface between the common runtime and each framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from signoff.core.approvals.parts import Kind
from signoff.worker.frameworks.guard import CallGuard


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A tool call that waits in a state.

    Attributes:
        id: The framework's id of the call, which is unique in the state.
        tool: The tool.
        args: Its arguments, as the model gave them.
        agent: The agent that made the call; "" if the agent has no name.
        hint: The tool's hint for the approver.
        said: The agent's text beside the call.
        declared: What the tool declares; see `Approval.declared`.
        kind: What is asked for.
        edits: Whether the framework can run the call with other arguments than the model gave.
        in_tool: Whether the call goes through the guard. If not, the answer resumes code of the
            agent itself.
        takes_words: Whether that code knows a rejection by its words; if not, it gets only the
            value that `[[inputs]]` says.
    """

    id: str
    tool: str
    args: dict[str, JsonValue]
    agent: str = ""
    hint: str = ""
    said: str = ""
    declared: str = ""
    kind: Kind = Kind.CONFIRMATION
    edits: bool = False
    in_tool: bool = True
    takes_words: bool = True


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The decision about a call that waits.

    Attributes:
        refusal: Why it was not approved, as a text for the model; None if it was approved.
        args: The approved arguments, if they differ from those that the model gave.
        value: The answer to a request for input.
    """

    refusal: str | None = None
    args: dict[str, JsonValue] | None = None
    value: JsonValue = None


class FrameworkTurn(NamedTuple):
    """How a turn ended.

    Attributes:
        paused: Whether calls wait for an approval.
        state: After a pause, the state from which the turn resumes; after the end of a turn, what
            it adds to the history of its session.
        text: The agent's last message.
    """

    paused: bool
    state: JsonValue
    text: str = ""


class Adapter(Protocol):
    """One framework. An agent is the object that the module of its folder exports."""

    name: str
    """The name of its extra, which is also stored with its states."""
    forks: bool
    """Whether a run can continue in a session while another one waits."""
    knows_gates: bool
    """Whether it knows which calls need an approval without relying on the stored state."""

    async def begin(
        self,
        agent: Any,  # noqa: ANN401 -- an agent of any framework
        message: str,
        history: JsonValue,
        guard: CallGuard,
    ) -> FrameworkTurn:
        """Send the user's message, and run to the next pause or to the end.

        The history is what earlier turns have added to the session, None if there were none. Every
        tool call has to go through the guard.
        """

    async def resume(
        self,
        agent: Any,  # noqa: ANN401 -- the same
        state: JsonValue,
        answers: Mapping[str, CallAnswer],
        guard: CallGuard,
    ) -> FrameworkTurn:
        """Answer all calls that wait in a state, and run to the next pause or to the end."""

    def waiting(self, state: JsonValue) -> Sequence[WaitingCall]:
        """Return the calls that wait in a state, as the framework would run them.

        Raises:
            ValueError: This framework has not made the state.
        """

    def longer(self, history: JsonValue, state: JsonValue) -> JsonValue:
        """Return the history of a session after a turn has ended."""


def jsonable(value: object) -> Any:  # noqa: ANN401 -- JSON
    """Return a value as JSON, in which a text replaces what is not JSON."""
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


def fields_of(state: object) -> dict[str, Any]:
    """Return the fields of a stored state, or of a part of it.

    Raises:
        TypeError: It is not an object.
    """
    if not isinstance(state, dict):
        raise TypeError("it is no object")
    return cast("dict[str, Any]", state)
