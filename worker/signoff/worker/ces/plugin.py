"""Callbacks of CX Agent Studio as a plugin of an ADK app."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from signoff.core.base.errors import ConfigError
from signoff.worker.ces.errors import CodeFailed, CodeRefused
from signoff.worker.ces.host import VARIABLES, CodeHost
from signoff.worker.ces.journal import of_callback, will_be_repeated
from signoff.worker.ces.lowering import Code, called, lower
from signoff.worker.ces.rules import Rules, current
from signoff.worker.ces.sandbox import Done, Sandbox, SuspendedCall
from signoff.worker.ces.toolset import tools_of
from signoff.worker.ces.translate import (
    Plain,
    change_request,
    context_of,
    request_of,
    response_of,
    to_content,
    to_response,
    tool_of,
)

KINDS: Final = tuple(
    f"{when}_{what}_callback" for what in ("agent", "model", "tool") for when in ("before", "after")
)
"""The kinds of callbacks: the names of their functions."""

_END: Final = "end_session"
"""The function call that `Part.from_end_session` makes."""

_ENDED: Final = "signoff_session_ended"
"""The key of the session state with the reason why the session has ended."""


class CesCallbacks(BasePlugin):
    """Callbacks of CX Agent Studio, unchanged, for the agents of an app.

    Each file has functions named `before_model_callback` and so on. The callbacks of one kind run
    in the order of their files' names, until one of them returns something. Files directly in the
    folder are for all agents; files in a folder with the name of an agent are for that agent.

    A callback that fails ends the run, because the callback might have stopped the agent.

    A callback that returns `Part.from_end_session(...)` ends the session: agents no longer call
    their models, and further messages are answered with the end of the session. A call that waits
    for an approval still runs if it is approved.

    Args:
        folder: The folder of the files.
        rules: What the code may do. The default is the section ``[ces]`` of the settings.

    Raises:
        ConfigError: There is no such folder, or no callback in it.
        CodeRefused: A file is not Python, or uses a feature that the sandbox lacks.
    """

    def __init__(self, folder: Path | str, rules: Rules | None = None) -> None:
        super().__init__(name="ces_callbacks")
        self._rules = rules
        self._found = _read(Path(folder))

    def concerns(self, gated: Collection[str]) -> list[str]:
        """Return problems that are known before the callbacks run: calls that would have to wait.

        Args:
            gated: The tools that ask for a confirmation in their own code.
        """
        rules = self._rules or current()
        files = {code.name: code for _, _, code in self._found}
        return [
            f"{name}, line {line}: {call} may need an approval, and a callback cannot wait for "
            "one: the call raises a PermissionError then. Make it in a tool, which can wait"
            for name, code in files.items()
            for line, call in called(code)
            if call in gated or rules.may_ask_about(call)
        ]

    async def before_run_callback(
        self, *, invocation_context: InvocationContext
    ) -> types.Content | None:
        """Answer a message to an ended session with the end of the session."""
        session = invocation_context.session
        ended = session.state.get(_ENDED)
        said = [one for one in session.events if one.author == "user" and one.content]
        # An answer to a question from before the end is not a message.
        answers = bool(said and said[-1].get_function_responses())
        return _words_of_end(ended) if ended and not answers else None

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: Context
    ) -> types.Content | None:
        """Run `before_agent_callback(callback_context)`."""
        return await self._of_agent("before_agent_callback", agent.name, callback_context)

    async def after_agent_callback(
        self, *, agent: BaseAgent, callback_context: Context
    ) -> types.Content | None:
        """Run `after_agent_callback(callback_context)`."""
        return await self._of_agent("after_agent_callback", agent.name, callback_context)

    async def before_model_callback(
        self, *, callback_context: Context, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Run `before_model_callback(callback_context, llm_request)`; it may change the request."""
        if ended := callback_context.state.get(_ENDED):
            return LlmResponse(content=_words_of_end(ended))
        if await will_be_repeated(callback_context):
            return None  # it has already run before this response
        for code in self._codes("before_model_callback", callback_context.agent_name):
            before = request_of(llm_request)
            ended = await self._run(code, "before_model_callback", callback_context, [before])
            change_request(llm_request, before, ended.objects[1], code.name)
            if ended.result is not None:
                return to_response(ended.result, code.name)
        return None

    async def after_model_callback(
        self, *, callback_context: Context, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """Run `after_model_callback(callback_context, llm_response)`."""
        if llm_response.partial or llm_response.content is None:
            return None
        for code in self._codes("after_model_callback", callback_context.agent_name):
            before = response_of(llm_response)
            ended = await self._run(code, "after_model_callback", callback_context, [before])
            said = ended.result
            if said is None and ended.objects[1] != before:
                said = ended.objects[1]
            if said is not None:
                made = to_response(said, code.name)
                return llm_response.model_copy(update={"content": made.content})
        return None

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Context
    ) -> dict[str, Any] | None:
        """Run `before_tool_callback(tool, input, callback_context)`; it may not change the input.

        The call that runs must be the one that the approver was shown.
        """
        if tool.name == _END and type(tool) is BaseTool:  # ADK's placeholder for an unknown tool
            return _end_session(tool_context, tool_args)
        if tool_context.tool_confirmation is not None:
            return None  # it has already run before the call stopped
        return await self._of_tool("before_tool_callback", tool, tool_args, tool_context)

    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: Context,
        result: dict[str, Any],
    ) -> dict[str, Any] | None:
        """Run `after_tool_callback(tool, input, callback_context, tool_response)`."""
        if tool_context.function_call_id in tool_context.actions.requested_tool_confirmations:
            return None  # the call has not ended, but waits
        given = result if isinstance(result, dict) else {"result": result}
        made = await self._of_tool("after_tool_callback", tool, tool_args, tool_context, given)
        if made is None or given is not result:
            return made
        # Changed in place: if we returned it, ADK would not call the plugins after this one.
        result.clear()
        result.update(made)
        return None

    async def _of_agent(self, kind: str, agent: str, context: Context) -> types.Content | None:
        for code in self._codes(kind, agent):
            ended = await self._run(code, kind, context, [])
            if ended.result is not None:
                return _without_end(to_content(ended.result, code.name), context)
        return None

    async def _of_tool(
        self,
        kind: str,
        tool: BaseTool,
        args: dict[str, Any],
        context: Context,
        *result: dict[str, Any],
    ) -> dict[str, Any] | None:
        for code in self._codes(kind, context.agent_name):
            given = [tool_of(tool), args]
            ended = await self._run(code, kind, context, [*result], before=given)
            if ended.result is None:
                continue
            if not isinstance(ended.result, dict) or "signoff" in ended.result:
                raise CodeFailed(f"{code.name} did not return a dict or None.")
            return ended.result
        return None

    async def _run(
        self,
        code: Code,
        kind: str,
        context: Context,
        behind: list[Any],
        *,
        before: list[Any] | None = None,
    ) -> Done:
        rules = self._rules or current()
        host = CodeHost(rules, context, await tools_of(context), may_wait=False)
        own: Plain = context_of(context, host.variables(), call_id=context.function_call_id)
        host.journal = of_callback(context, kind, code.name)
        try:
            ended = await Sandbox(rules).run(
                code,
                kind,
                setup={
                    "context": own,
                    "tools": sorted(host.tools),
                    "marked": rules.may_ask_about(*VARIABLES),
                    "objects": [*(before or []), *behind],
                    "place": len(before or []),
                },
                args={},
                host=host,
                settle=host.settle,
            )
        finally:
            await host.close()
        if isinstance(ended, SuspendedCall):
            raise CodeFailed(f"{code.name}: {ended.tool} needs approval.")
        return ended

    def _codes(self, kind: str, agent: str) -> list[Code]:
        return [code for owner, one, code in self._found if one == kind and owner in {"", agent}]


def _without_end(content: types.Content, context: Context) -> types.Content:
    """End the session if an agent's callback asks for it: ADK runs no calls in its content."""
    parts = []
    for part in content.parts or []:
        if part.function_call is not None and part.function_call.name == _END:
            _end_session(context, part.function_call.args or {})
        else:
            parts.append(part)
    if len(parts) == len(content.parts or []):
        return content
    return types.Content(
        role=content.role, parts=parts or _words_of_end(context.state[_ENDED]).parts
    )


def _end_session(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """End the session; return the result of the call."""
    reason, escalated = str(args.get("reason") or ""), args.get("session_escalated") is True
    context.state[_ENDED] = {"reason": reason, "escalated": escalated}
    context.actions.skip_summarization = True
    context._invocation_context.end_invocation = True  # noqa: SLF001 -- ADK has no public way
    return {"status": "The session has ended.", "reason": reason, "session_escalated": escalated}


def _words_of_end(ended: Mapping[str, Any]) -> types.Content:
    why = f" {ended['reason']}" if ended.get("reason") else ""
    return types.Content(role="model", parts=[types.Part(text=f"This session has ended.{why}")])


def _read(folder: Path) -> list[tuple[str, str, Code]]:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder of callbacks of CX Agent Studio.")
    found = []
    for file in sorted(folder.rglob("*.py")):
        if file.name.startswith(("_", ".")):
            continue
        inside = file.relative_to(folder)
        code = lower(file.read_text("utf-8"), str(inside))
        kinds = [kind for kind in KINDS if kind in code.functions]
        if not kinds:
            raise CodeRefused(f"{inside} has no callback. Their names are {', '.join(KINDS)}.")
        owner = inside.parts[0] if len(inside.parts) > 1 else ""
        found += [(owner, kind, code) for kind in kinds]
    if not found:
        raise ConfigError(f"There is no callback in {folder}.")
    return found
