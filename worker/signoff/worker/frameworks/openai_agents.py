"""Agents of the OpenAI Agents SDK: tools that need an approval, also inside agents that are tools.

The state of a pause is the SDK's `RunState`. Before each turn the SDK asks each agent for its tools
(`Agent.get_all_tools`). There the guard is put around the tools, including those of MCP servers and
agents that are tools; and the servers are connected, because the SDK leaves that to programs. The
SDK cannot run a call with other arguments than the model gave. So the model gets an approver's
edit, and is asked to make exactly that call.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast

import structlog
from agents import (
    Agent,
    AgentBase,
    FunctionTool,
    RunContextWrapper,
    Runner,
    RunResult,
    RunState,
    Tool,
)
from agents._public_agent import get_public_agent
from agents._tool_identity import get_explicit_function_tool_namespace
from agents.mcp import MCPServer, MCPServerManager
from agents.tool_context import ToolContext
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import PauseNotRoutable
from signoff.worker.frameworks.adapter import (
    CallAnswer,
    FrameworkTurn,
    WaitingCall,
    fields_of,
    jsonable,
)
from signoff.worker.frameworks.guard import CallGuard, FrameworkCall, declared_by, same_args

log = structlog.get_logger(__name__)

_FUNCTION_CALL: Final = "function_call"
_PATIENCE: Final = 60.0
"""How many seconds an MCP server may take until it is connected."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The running turn, for the calls of its tools.

    Attributes:
        guard: The guard.
        declared: The declaration of each tool, by the id of the agent object and the
            names of namespace and tool.
        servers: The MCP servers that are connected for the turn.
    """

    guard: CallGuard
    declared: dict[tuple[int, str, str], str] = field(default_factory=dict)
    servers: dict[MCPServer, _Connection] = field(default_factory=dict)


class _Connection:
    """The connection to an MCP server, shared by the turns that use it.

    It is closed with the last of them, so that a server that has ended is started again.
    """

    def __init__(self, server: MCPServer) -> None:
        self.manager = MCPServerManager([server], connect_timeout_seconds=_PATIENCE, strict=True)
        self.users = 0
        self.connecting = asyncio.create_task(self.manager.connect_all())
        self.closing: asyncio.Task[None] | None = None

    async def close(self, server: MCPServer) -> None:
        """Disconnect the server; another turn may connect it after that."""
        try:
            await asyncio.wait([self.connecting])
            await self.manager.cleanup_all()
        except Exception as error:  # noqa: BLE001 -- a server may raise anything; the turn has ended
            log.warning("mcp.not_closed", server=server.name, error=str(error))
        finally:
            del _connections[server]


_connections: dict[MCPServer, _Connection] = {}


async def _connect(turn: _Turn, servers: Sequence[MCPServer]) -> None:
    """Connect the servers of an agent that are not connected.

    Raises:
        Exception: A server cannot be reached.
    """
    for server in servers:
        if server in turn.servers:
            continue
        while (found := _connections.get(server)) is not None and found.closing is not None:
            await asyncio.wait([found.closing])
        if found is None:
            if getattr(server, "session", server) is not None:
                continue  # the agent's own code has connected it, or connects it when it is used
            found = _connections[server] = _Connection(server)
        found.users += 1
        turn.servers[server] = found
        await asyncio.shield(found.connecting)


async def _disconnect(turn: _Turn) -> None:
    """Close the connections that no other turn uses, also if this is cancelled."""
    ending = []
    for server, connection in turn.servers.items():
        connection.users -= 1
        if not connection.users:
            connection.closing = asyncio.create_task(connection.close(server))
            ending.append(connection.closing)
    if ending:
        await asyncio.wait(ending)


_turn: ContextVar[_Turn | None] = ContextVar("signoff_openai_turn", default=None)


class OpenAiAgentsAdapter:
    """Runs agents of the OpenAI Agents SDK."""

    name: str = "openai-agents"
    forks: bool = True
    knows_gates: bool = True

    def __init__(self) -> None:
        _watch_tools()

    async def begin(
        self, agent: Agent[Any], message: str, history: JsonValue, guard: CallGuard
    ) -> FrameworkTurn:
        """Send the user's message; see `Adapter.begin`."""
        before = cast("list[Any]", history or [])
        said: Any = {"role": "user", "content": message}
        async with _running(guard) as turn:
            return _outcome(await Runner.run(agent, [*before, said]), turn, len(before))

    async def resume(
        self,
        agent: Agent[Any],
        state: JsonValue,
        answers: Mapping[str, CallAnswer],
        guard: CallGuard,
    ) -> FrameworkTurn:
        """Answer all calls that wait; see `Adapter.resume`."""
        stored = fields_of(state)
        async with _running(guard) as turn:
            going_on = await RunState.from_json(agent, stored["run"])
            for item in going_on.get_interruptions():
                answer = answers[fields_of(to_jsonable_python(item.raw_item))["call_id"]]
                if answer.refusal is None:
                    going_on.approve(item)
                else:
                    going_on.reject(item, rejection_message=answer.refusal)
            return _outcome(await Runner.run(agent, going_on), turn, int(stored["base"]))

    def waiting(self, state: JsonValue) -> Sequence[WaitingCall]:
        """Return the calls that wait; see `Adapter.waiting`."""
        stored = fields_of(state)
        run = stored["run"]
        said = _said(run["last_model_response"]["output"])
        return [
            WaitingCall(
                id=item["raw_item"]["call_id"],
                tool=item["raw_item"]["name"],
                args=_arguments(item["raw_item"]["arguments"]),
                agent=item["agent"]["name"],
                hint=_hint(item["raw_item"]),
                said=said,
                declared=stored["declared"].get(item["raw_item"]["call_id"], ""),
            )
            for item in run["current_step"]["data"]["interruptions"]
        ]

    def longer(self, history: JsonValue, state: JsonValue) -> JsonValue:
        """Return the items of a session after a turn; see `Adapter.longer`."""
        return [*cast("list[JsonValue]", history or []), *cast("list[JsonValue]", state)]


@asynccontextmanager
async def _running(guard: CallGuard) -> AsyncIterator[_Turn]:
    """Let the body be a turn."""
    turn = _Turn(guard)
    token = _turn.set(turn)
    try:
        yield turn
    finally:
        _turn.reset(token)
        await _disconnect(turn)


def _outcome(result: RunResult, turn: _Turn, base: int) -> FrameworkTurn:
    """Return how a turn ended, which began with this number of earlier items."""
    if result.interruptions:
        return FrameworkTurn(True, _state(result, turn, base))
    added = to_jsonable_python(result.to_input_list()[base:])
    output = result.final_output
    text = output if isinstance(output, str) else json.dumps(jsonable(output))
    return FrameworkTurn(False, added, text)


def _state(result: RunResult, turn: _Turn, base: int) -> JsonValue:
    """Return the state of a pause.

    Raises:
        PauseNotRoutable: A call waits that is not a function call.
    """
    state, declared = result.to_state().to_json(), dict[str, JsonValue]()
    for item in result.interruptions:
        raw = fields_of(to_jsonable_python(item.raw_item))
        if raw.get("type") != _FUNCTION_CALL:
            run = turn.guard.run
            raise PauseNotRoutable(
                f"Run {run.id} of {run.app} waits for {item.tool_name}, a tool "
                "that the SDK or OpenAI runs. Only function tools, those of MCP servers and agents "
                "that are tools can wait for a person."
            )
        place = (id(get_public_agent(item.agent)), raw.get("namespace") or "", str(raw["name"]))
        declared[raw["call_id"]] = turn.declared.get(place, "")
    return {"base": base, "run": cast("JsonValue", state), "declared": declared}


@functools.cache
def _watch_tools() -> None:
    """Put the guard around the tools of all agents, once in a process."""
    get_all_tools = AgentBase.get_all_tools

    @functools.wraps(get_all_tools)
    async def watched(self: AgentBase[Any], context: RunContextWrapper[Any]) -> list[Tool]:
        turn = _turn.get()
        if turn is not None:
            await _connect(turn, self.mcp_servers)
        tools = await get_all_tools(self, context)
        for tool in tools:
            if isinstance(tool, FunctionTool):
                _Guarded.put_before(tool)
                if turn is not None:
                    place = (id(get_public_agent(cast("Any", self))), _namespace(tool), tool.name)
                    turn.declared[place] = _declares(tool)
        return tools

    AgentBase.get_all_tools = watched  # type: ignore[assignment,method-assign] # agents may be created during a turn


class _Guarded:
    """Wraps the code of a tool in the guard of the turn that runs it.

    It has the attributes and the class of the wrapped code, because the SDK reads them: it asks
    about arguments that this code would change before it runs.
    """

    def __init__(
        self, tool: FunctionTool, inner: Callable[[ToolContext[Any], str], Awaitable[Any]]
    ) -> None:
        self.tool = tool
        self.inner = inner

    @classmethod
    def put_before(cls, tool: FunctionTool) -> None:
        """Wrap the code of a tool, also if the tool is a copy of a wrapped one."""
        found = tool.on_invoke_tool
        if not isinstance(found, cls):
            tool.on_invoke_tool = cls(tool, found)
        elif found.tool is not tool:
            tool.on_invoke_tool = cls(tool, found.inner)

    @property  # type: ignore[misc] # nobody assigns to it
    def __class__(self) -> type:
        """The class that `isinstance` sees."""
        return type(self.inner)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- any attribute that the SDK reads
        if name.startswith("_") and not name.startswith("__agents"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:  # noqa: ANN401 -- a tool may return anything
        """Run the tool."""
        turn = _turn.get()
        if turn is None:
            return await self.inner(context, arguments)
        args = _arguments(arguments)
        call_id = context.tool_call_id
        agent = context.agent.name if context.agent is not None else turn.guard.run.app
        asks = await self._asks(context, args)
        call = FrameworkCall(
            id=call_id,
            tool=self.tool.name,
            args=args,
            agent=agent,
            declared=_declares(self.tool),
            approved=asks or turn.guard.expects(call_id),
            free=not asks,
            # An agent that is a tool is called again each time it resumes.
            again=self.tool._is_agent_tool,  # noqa: SLF001 -- the SDK has no public way to ask
        )

        def same(approval: Approval) -> bool:
            """Return whether the tool would get the approved arguments."""
            return same_args(args, approval.call.args)

        return await turn.guard.enter(call, same, lambda: self.inner(context, arguments), jsonable)

    async def _asks(self, context: ToolContext[Any], args: dict[str, JsonValue]) -> bool:
        """Return whether the tool asks for an approval of this call."""
        asks = self.tool.needs_approval
        if not callable(asks):
            return asks
        try:
            return bool(await asks(context, args, context.tool_call_id))
        except Exception:  # noqa: BLE001 -- it may raise anything; the SDK then asks too
            return True


def _namespace(tool: FunctionTool) -> str:
    return get_explicit_function_tool_namespace(tool) or ""


def _declares(tool: FunctionTool) -> str:
    """Return the declaration of a tool; an agent may have tools of one name in namespaces."""
    schema, namespace = tool.params_json_schema, _namespace(tool)
    return declared_by({"namespace": namespace, "schema": schema} if namespace else schema)


def _hint(call: Mapping[str, Any]) -> str:
    namespace = call.get("namespace")
    return f"Namespace: {namespace}" if namespace else ""


def _arguments(text: str) -> dict[str, JsonValue]:
    """Return the arguments of a call; if they are not a JSON object, under "arguments".

    So is the text of an object with a key twice: tools get the text, and may read the other value.
    """
    try:
        found = json.loads(text or "{}", object_pairs_hook=_once_each)
    except ValueError:
        found = text
    return found if isinstance(found, dict) else {"arguments": found}


def _once_each(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _said(output: Sequence[Mapping[str, Any]]) -> str:
    """Return the model's text beside its calls."""
    return "".join(
        part.get("text", "")
        for item in output
        if item.get("type") == "message"
        for part in item.get("content", ())
    )
