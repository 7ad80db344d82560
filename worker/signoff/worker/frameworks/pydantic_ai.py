"""Agents of Pydantic AI: deferred tools that require an approval.

The state of a pause consists of the messages, and of the ids of the deferred calls in the last one
(`pydantic_ai.DeferredToolRequests`). The guard is in each leaf toolset, after all wrappers and
capabilities of the agent itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import JsonValue, TypeAdapter
from pydantic_ai import (
    AbstractToolset,
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDenied,
    WrapperToolset,
)
from pydantic_ai.agent import AgentRunResult
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ToolReturn
from pydantic_ai.toolsets import ToolsetTool

from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import PauseNotRoutable, ToolInDoubt
from signoff.worker.frameworks.adapter import (
    CallAnswer,
    FrameworkTurn,
    WaitingCall,
    fields_of,
    jsonable,
)
from signoff.worker.frameworks.guard import CallGuard, FrameworkCall, declared_by, same_args
from signoff.worker.starting import copied

_UNAPPROVED: Final = "unapproved"

_json: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class PydanticAiAdapter:
    """Runs agents of Pydantic AI."""

    name: str = "pydantic-ai"
    forks: bool = True
    knows_gates: bool = True

    async def begin(
        self, agent: Agent[Any, Any], message: str, history: JsonValue, guard: CallGuard
    ) -> FrameworkTurn:
        """Send the user's message; see `Adapter.begin`."""
        before = _messages(history)
        return await self._run(agent, guard, len(before), message, message_history=before)

    async def resume(
        self,
        agent: Agent[Any, Any],
        state: JsonValue,
        answers: Mapping[str, CallAnswer],
        guard: CallGuard,
    ) -> FrameworkTurn:
        """Answer all calls that wait; see `Adapter.resume`."""
        stored = fields_of(state)
        results = DeferredToolResults(
            approvals={
                id_: ToolDenied(one.refusal)
                if one.refusal is not None
                else ToolApproved(override_args=one.args)
                for id_, one in answers.items()
            }
        )
        return await self._run(
            agent,
            guard,
            int(stored["base"]),
            None,
            message_history=_messages(stored["messages"]),
            deferred_tool_results=results,
        )

    async def _run(
        self,
        agent: Agent[Any, Any],
        guard: CallGuard,
        base: int,
        prompt: str | None,
        **more: Any,  # noqa: ANN401 -- the arguments of `Agent.run`
    ) -> FrameworkTurn:
        capability = _GuardCapability(guard=guard, agent=agent.name or guard.run.app)
        if not _takes_requests(agent.output_type):
            more["output_type"] = [*_as_list(agent.output_type), DeferredToolRequests]
        result = await agent.run(prompt, infer_name=False, capabilities=[capability], **more)
        if isinstance(result.output, DeferredToolRequests):
            return FrameworkTurn(True, _state(result, capability, base))
        added = ModelMessagesTypeAdapter.dump_python(result.all_messages()[base:], mode="json")
        output = result.output
        text = output if isinstance(output, str) else json.dumps(_jsonable(output))
        return FrameworkTurn(False, added, text)

    def waiting(self, state: JsonValue) -> Sequence[WaitingCall]:
        """Return the calls that wait; see `Adapter.waiting`."""
        stored = fields_of(state)
        shown = stored["waiting"]
        last = _last_response(_messages(stored["messages"]))
        return [
            WaitingCall(
                id=call.tool_call_id,
                tool=call.tool_name,
                args=call.args_as_dict(raise_if_invalid=True),
                agent=stored["agent"],
                hint=shown[call.tool_call_id]["hint"],
                said=last.text or "",
                declared=shown[call.tool_call_id]["declared"],
                edits=True,
            )
            for call in last.tool_calls
            if call.tool_call_id in shown
        ]

    def longer(self, history: JsonValue, state: JsonValue) -> JsonValue:
        """Return the messages of a session after a turn; see `Adapter.longer`."""
        return [*cast("list[JsonValue]", history or []), *cast("list[JsonValue]", state)]


@dataclass
class _GuardCapability(AbstractCapability[Any]):
    """Puts the guard before every tool of a run.

    Attributes:
        guard: The guard.
        agent: The name of the agent.
        declared: The declaration of each tool, by name.
    """

    guard: CallGuard = field(kw_only=True)
    agent: str = field(kw_only=True)
    declared: dict[str, str] = field(default_factory=dict, kw_only=True)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Wrap each leaf toolset, and the whole toolset to record the declarations of its tools."""
        return _Declaring(toolset.visit_and_replace(lambda one: _Guarded(one, self)), self)


@dataclass
class _Declaring(WrapperToolset[Any]):
    """Records the declarations of tools, by the names that the model knows."""

    capability: _GuardCapability

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools."""
        tools = await super().get_tools(ctx)
        for name, tool in tools.items():
            self.capability.declared[name] = declared_by(tool.tool_def.parameters_json_schema)
        return tools


@dataclass
class _Guarded(WrapperToolset[Any]):
    """A toolset whose calls go through the guard."""

    capability: _GuardCapability

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
    ) -> Any:  # noqa: ANN401 -- a tool may return anything
        """Call a tool with its own copy of the arguments."""
        call_id = ctx.tool_call_id or ""
        shown = _shown_name(ctx, call_id) or name
        given = copied(tool_args)
        own = _jsonable(given)
        call = FrameworkCall(
            id=call_id,
            tool=shown,
            args=own,
            agent=self.capability.agent,
            declared=self.capability.declared.get(shown, ""),
            approved=ctx.tool_call_approved or tool.tool_def.kind == _UNAPPROVED,
        )

        def same(approval: Approval) -> bool:
            """Return whether the tool would get the approved arguments, once they are validated."""
            if same_args(own, approval.call.args):
                return True
            approved = tool.args_validator.validate_python(approval.call.args)
            return same_args(own, _jsonable(approved))

        async def inner() -> Any:  # noqa: ANN401 -- the same
            try:
                return await self.wrapped.call_tool(name, given, ctx, tool)
            except ModelRetry as error:
                if isinstance(error.__context__, TimeoutError):
                    raise ToolInDoubt(
                        f"{shown}() did not end in time: it may or may not have happened."
                    ) from error
                raise
            except ApprovalRequired as error:
                if not call.approved:
                    raise
                raise PauseNotRoutable(
                    f"{shown}() has asked for an approval again after it was approved, and would "
                    "do so each time. Raise ApprovalRequired only if not ctx.tool_call_approved."
                ) from error

        return await self.capability.guard.enter(call, same, inner, _kept)


def _shown_name(ctx: RunContext[Any], call_id: str) -> str:
    """Return the name by which the model has called a tool; a toolset may add a prefix."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            for call in message.tool_calls:
                if call.tool_call_id == call_id:
                    return call.tool_name
    return ""


def _state(result: AgentRunResult[Any], capability: _GuardCapability, base: int) -> JsonValue:
    """Return the state of a pause.

    Raises:
        PauseNotRoutable: A call waits for an external result, not for an approval.
    """
    requests: DeferredToolRequests = result.output
    if requests.calls:
        names = ", ".join(dict.fromkeys(f"{one.tool_name}()" for one in requests.calls))
        run = capability.guard.run
        raise PauseNotRoutable(
            f"Run {run.id} of {run.app} waits for the result of {names}, "
            "which comes from elsewhere. Only tools that require an approval can wait for a person."
        )
    return {
        "base": base,
        "agent": capability.agent,
        "messages": ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json"),
        "waiting": {
            one.tool_call_id: {
                "hint": str(requests.metadata.get(one.tool_call_id, {}).get("hint") or ""),
                "declared": capability.declared.get(one.tool_name, ""),
            }
            for one in requests.approvals
        },
    }


def _messages(history: JsonValue) -> list[Any]:
    return ModelMessagesTypeAdapter.validate_python(history or [])


def _last_response(messages: Sequence[Any]) -> ModelResponse:
    return next(one for one in reversed(messages) if isinstance(one, ModelResponse))


def _takes_requests(output_type: object) -> bool:
    return any(one is DeferredToolRequests for one in _as_list(output_type))


def _as_list(output_type: object) -> list[Any]:
    return list(output_type) if isinstance(output_type, list | tuple) else [output_type]


def _kept(result: object) -> JsonValue:
    kept: JsonValue = _jsonable(result.return_value if isinstance(result, ToolReturn) else result)
    return kept


def _jsonable(value: object) -> Any:  # noqa: ANN401 -- JSON
    return _json.validate_python(jsonable(value))
