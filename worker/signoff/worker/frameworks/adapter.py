"""What the runtimes of the frameworks have in common asks of each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pydantic import JsonValue

from signoff.core.approvals.parts import Kind
from signoff.worker.frameworks.gate import Gate


@dataclass(frozen=True, slots=True)
class Waiting:
    """A tool call that waits in a state.

    Attributes:
        id: The framework's id of it; no other call of the state has the same.
        tool: The tool.
        args: Its arguments, as the model gave them.
        agent: The agent that made it; "" where it has no name.
        hint: The tool's words.
        said: What the agent said beside it.
        declared: What the tool declares; see `Approval.declared`.
        kind: What is asked for.
        edits: Whether the framework can run it with other arguments than the model gave.
        in_tool: Whether it goes through the gate; otherwise it is code of the agent's own that goes
            on when the answer is given.
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


@dataclass(frozen=True, slots=True)
class Answer:
    """What was decided about a call that waits.

    Attributes:
        refusal: Why it was not approved, in words for the model; None where it was.
        args: Its arguments, where others were approved than the model gave.
        value: The answer to a request for input.
    """

    refusal: str | None = None
    args: dict[str, JsonValue] | None = None
    value: JsonValue = None


class Outcome(NamedTuple):
    """How a turn ended.

    Attributes:
        paused: Whether calls wait for an approval.
        state: All that a pause goes on from; of a turn that is over, what it adds to the history of
            its session.
        text: The agent's last word.
    """

    paused: bool
    state: JsonValue
    text: str = ""


class Adapter(Protocol):
    """One framework. An agent is what the module of its folder exports."""

    name: str
    """As it is stored with the states, and as its extra is called."""
    forks: bool
    """Whether a run can go on in a session while another one waits."""
    knows_gates: bool
    """Whether it knows of each call if it needs an approval, whatever a stored state says."""

    async def begin(self, agent: Any, message: str, history: JsonValue, gate: Gate) -> Outcome:  # noqa: ANN401 -- an agent of any framework
        """Say the user's message, and run to the next pause or to the end.

        Args:
            agent: The agent.
            message: The message.
            history: What earlier turns have added to the session, None where there were none.
            gate: What every tool call goes through.
        """

    async def resume(
        self,
        agent: Any,  # noqa: ANN401 -- the same
        state: JsonValue,
        answers: Mapping[str, Answer],
        gate: Gate,
    ) -> Outcome:
        """Answer all calls that wait in a state, and run to the next pause or to the end."""

    def waiting(self, state: JsonValue) -> Sequence[Waiting]:
        """Return the calls that wait in a state, as the framework would run them.

        Raises:
            ValueError: The state is none that this framework has made.
        """

    def longer(self, history: JsonValue, state: JsonValue) -> JsonValue:
        """Return the history of a session after a turn that is over."""
