"""A folder of Python tools of CX Agent Studio as a toolset of an ADK agent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import structlog
from google.adk.agents.context import Context
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from signoff.core.base.errors import ConfigError
from signoff.worker.adk.history import confirmations
from signoff.worker.ces.declare import declaration
from signoff.worker.ces.errors import CodeError, CodeRefused, SnapshotRefused
from signoff.worker.ces.host import VARIABLES, CodeHost, require_pending
from signoff.worker.ces.journal import has_guard, of_call
from signoff.worker.ces.lowering import Code, lower
from signoff.worker.ces.rules import Rules, bring, current
from signoff.worker.ces.sandbox import Answer, Done, Sandbox, SuspendedCall, require_readable
from signoff.worker.ces.seal import seal, unseal
from signoff.worker.ces.translate import context_of
from signoff.worker.suspended import CarriesCode, Resumption, Suspended, claimed

log = structlog.get_logger(__name__)

_EXPORTED: Final = "python_code.py"
"""The name of a tool's file in an app exported from CX Agent Studio; each has its own folder."""


class CesToolset(BaseToolset):
    """Python tools of CX Agent Studio, unchanged: each file is a tool, each tool a function.

    The function has the name of the file (or of the folder, for an exported `python_code.py`); its
    signature and docstring become its declaration for the model. The code runs in a sandbox.

    Args:
        folder: The folder of the files.
        rules: What the code may do. The default is the section ``[ces]`` of the settings.

    Raises:
        ConfigError: There is no such folder, or no tool in it.
        CodeRefused: A file is not Python, or uses a feature that the sandbox lacks.
    """

    def __init__(self, folder: Path | str, rules: Rules | None = None) -> None:
        super().__init__()
        self._tools = [CesTool(code, name, rules) for name, code in read_folder(Path(folder))]

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return all tools of the folder."""
        return list(self._tools)


class CesTool(BaseTool, CarriesCode):
    """One Python tool of CX Agent Studio.

    Args:
        code: Its file.
        name: Its function.
        rules: What it may do. The default is the rules of the process.
    """

    def __init__(self, code: Code, name: str, rules: Rules | None = None) -> None:
        self._declared = declaration(code, name)
        super().__init__(name=name, description=self._declared.description or name)
        self.code = code
        self._rules = rules
        if rules is not None:
            bring(rules)

    @property
    def rules(self) -> Rules:
        """What the code may do."""
        return self._rules or current()

    def _get_declaration(self) -> types.FunctionDeclaration:
        return self._declared

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Run or resume the code; if it fails, the error is the result of this call."""
        try:
            ended = await self._ended(args, tool_context)
            if not isinstance(ended, SuspendedCall):
                return ended.result
            sealed = seal(self.rules, ended, tool_context)
        except CodeError as error:
            log.warning("ces.failed", tool=self.name, problem=str(error))
            return {"error": str(error)}
        tool_context.request_confirmation(
            hint=f"The code of {self.name}() has stopped at this call. {ended.hint}".rstrip(),
            payload=Suspended(ended.tool, ended.args, sealed, doubtful=ended.doubtful).payload(),
        )
        tool_context.actions.skip_summarization = True
        return {"status": f"The call of {ended.tool} inside of it requires confirmation."}

    async def _ended(self, args: dict[str, Any], context: Context) -> Done | SuspendedCall:
        host = CodeHost(self.rules, context, await tools_of(context))
        asked = _stops(context)
        if context.tool_confirmation is not None and asked:
            frames, verdict = self._answered(context.tool_confirmation, context, asked)
            host.journal = of_call(context, len(asked), frames[0]["kept"].get("left", []))
            return await go_on(self.rules, frames, verdict, host)
        if context.tool_confirmation is not None and not context.tool_confirmation.confirmed:
            raise CodeRefused(f"The call of {self.name}() was rejected.")
        host.journal = of_call(context, 0, [])
        try:
            return await self.in_sandbox(args, host)
        finally:
            await host.close()

    def _answered(
        self, answer: ToolConfirmation, context: Context, asked: list[Suspended]
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return suspended code, and the reason if its call was refused, else None."""
        if isinstance(answer.payload, Resumption):
            given = answer.payload
        elif has_guard(context):
            raise SnapshotRefused(
                f"No seal of ours says that the code of {self.name}() is suspended, as its session "
                "does. It was not resumed."
            )
        else:
            # In a plain `adk web` the session itself contains the snapshot.
            code = asked[-1]
            refused = None if answer.confirmed else f"The call of {code.tool} was rejected."
            given = Resumption(code.sealed, code.tool, code.args, refused)
        frames = unseal(self.rules, given.sealed, context, (given.tool, given.args))
        for frame in frames:
            # Checked first, so that the approved call is not made if the code cannot resume.
            require_readable(frame)
        require_pending(frames[-1]["kept"]["pending"], given.tool, given.args)
        return frames, given.refused

    async def in_sandbox(self, args: dict[str, Any], host: CodeHost) -> Done | SuspendedCall:
        """Run the code to its end, or to a call that waits."""
        return await Sandbox(self.rules).run(
            self.code,
            self.name,
            setup={
                "context": context_of(
                    host.context, host.variables(), call_id=host.context.function_call_id or ""
                ),
                "tools": sorted(host.tools),
                "marked": self.rules.may_ask_about(*VARIABLES),
                "objects": [],
            },
            args=args,
            host=host,
            settle=host.settle,
        )


def _stops(context: Context) -> list[Suspended]:
    """Return the calls at which the code of a tool call has stopped, as the session has them."""
    found = [
        claimed(one.payload)
        for event in context.session.events
        for one in confirmations(event)
        if one.call_id == context.function_call_id
    ]
    return [one for one in found if one is not None]


async def go_on(
    rules: Rules, frames: list[dict[str, Any]], refused: str | None, host: CodeHost
) -> Done | SuspendedCall:
    """Resume suspended code, the innermost run first.

    Args:
        rules: The limits.
        frames: The suspended runs, the outermost first.
        refused: Why the call was not approved; None if it was.
        host: The host of the tool call; each frame gets its own copy.
    """
    frame = frames[0]
    own = replace(host, kept=frame["kept"])
    try:
        if len(frames) > 1:
            inner = await go_on(rules, frames[1:], refused, own.nested())
            answer: Answer | SuspendedCall = (
                inner if isinstance(inner, SuspendedCall) else own.inner(inner)
            )
        elif refused is not None:
            answer = await own.refused(refused)
        else:
            kind, args = own.pending
            answer = await own.perform(kind, args, None, yes=ToolConfirmation(confirmed=True))
        if isinstance(answer, SuspendedCall):
            # It may now wait for another call than the one at which it was suspended.
            stopped = {**frame, "kept": await own.settle()}
            return replace(answer, frames=(stopped, *answer.frames))
        code = Code(name=frame["code"], text="", functions={})
        return await Sandbox(rules).resume(code, frame, answer, host=own, settle=own.settle)
    finally:
        await own.close()


async def tools_of(context: Context) -> dict[str, BaseTool]:
    """Return the tools of the agent that a context belongs to, by name."""
    invocation = context._invocation_context  # noqa: SLF001 -- ADK has no public access to the agent
    agent = invocation.agent
    if not isinstance(agent, LlmAgent):
        return {}
    found = await agent.canonical_tools(ReadonlyContext(invocation))
    return {one.name: one for one in found}


def read_folder(folder: Path) -> list[tuple[str, Code]]:
    """Return the functions of a folder, each with its file.

    Raises:
        ConfigError: There is no such folder, or no Python file in it.
        CodeRefused: A file cannot be used.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder of Python files of CX Agent Studio.")
    found = []
    for file in sorted(folder.rglob("*.py")):
        if file.name.startswith(("_", ".")):
            continue
        name = file.stem if file.name != _EXPORTED else _exported_name(file, folder)
        shown = str(file.relative_to(folder))
        code = lower(file.read_text("utf-8"), shown)
        if name not in code.functions:
            raise CodeRefused(
                f"{shown} has no function {name}(). The function of a tool has the name of its "
                f"file; there are: {', '.join(code.functions) or 'none'}."
            )
        found.append((name, code))
    if not found:
        raise ConfigError(f"There is no Python file in {folder}.")
    return found


def _exported_name(file: Path, folder: Path) -> str:
    names = [one for one in file.relative_to(folder).parts[:-1] if one != "python_function"]
    return names[-1] if names else file.stem
