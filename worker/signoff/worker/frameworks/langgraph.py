"""Agents of LangGraph and LangChain: interrupts.

There are three kinds of interrupts:

- An interrupt of `HumanInTheLoopMiddleware`, in both of its modes, asks about tool calls. Each is
  answered with approve, edit, reject or respond, if the interrupt allows it.
- A `HumanInterrupt`, or a list of them (the schema of Agent Inbox), asks about actions. Each is
  answered with accept, edit, response or ignore.
- Any other interrupt is a request for input, and `interrupt()` returns the answer.

Tool calls go through the guard in `ToolNode`, after all middleware. Other interrupts resume code of
the graph itself. That code counts as started when the answer is given, and as finished when the
graph has reached its next pause or its end.

LangGraph runs that code again from its beginning, and gives it the answers in their order. So what
it asks then is compared with what was asked: an answer is for nothing else.

The state of a pause is the checkpoint of the thread, with its pending writes. For the turn, the
graph's own checkpointer is replaced by one that holds this state in memory.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, Final, Self, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.graph import StateGraph
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from langgraph.pregel import Pregel, _runner
from langgraph.types import Command, Interrupt, PregelExecutableTask, interrupt
from pydantic import BaseModel, JsonValue

from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import AnswerNotTaken, InvalidRun, PauseNotRoutable
from signoff.core.base.text import brief
from signoff.worker.frameworks.adapter import CallAnswer, FrameworkTurn, WaitingCall
from signoff.worker.frameworks.guard import CallGuard, FrameworkCall, declared_by, same_args
from signoff.worker.frameworks.langgraph_interrupts import (
    arguments_of,
    as_text,
    asks_same,
    own_interrupts,
    read_interrupt,
    resumption,
    text_of,
)
from signoff.worker.frameworks.langgraph_thread import (
    CONFIG,
    MESSAGES,
    TASK,
    THREAD,
    MadeCalls,
    calls_at_interrupts,
    decoded,
    encoded,
    interrupted_tasks,
    interrupts_of,
    last_word,
    made_calls,
    messages_in,
    restored_thread,
    stored_thread,
)
from signoff.worker.running_tools import TurnStopped
from signoff.worker.starting import copied

_BINARY: Final = "langgraph"

_UNNAMED: Final = "LangGraph"


# Keys of the configuration of a task, which LangGraph does not export.
_NAMESPACE: Final = "checkpoint_ns"
_SCRATCHPAD: Final = "__pregel_scratchpad"


@dataclass(frozen=True, slots=True)
class _Turn:
    """The running turn, for the calls of its tools.

    Attributes:
        guard: The guard.
        agent: The name of the graph.
        before: The calls that the model had made before the turn.
        asked: What the graph's own code has asked.
    """

    guard: CallGuard
    agent: str
    before: MadeCalls
    asked: _Asked

    def stopped(self, why: str) -> _OtherAsked:
        """Return what ends the turn in an interrupt, even if code handles it."""
        run = self.guard.run
        error = PauseNotRoutable(f"The graph of run {run.id} of {run.app} {why}")
        self.guard.stopped = self.guard.stopped or error
        return _OtherAsked(error)


class _OtherAsked(TurnStopped):
    """Ends a turn whose code asks something else than it has asked before."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the code of tasks has asked by interrupts, in the order of each task.

    Attributes:
        answered: The ids of the tasks that continue after an interrupt of the graph's own code.
        values: The values of its interrupts, by the namespace of the task.
        latest: The id of its last interrupt, by the namespace.
        taken: The ids of the interrupts whose answers were taken in this turn.
        executions: How many interrupts each execution of a task has come to in this turn, and in
            which tool call ("" for none), by the id of its scratchpad, which is kept so that the id
            stays its own.
    """

    answered: frozenset[str] = frozenset()
    values: dict[str, list[object]] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    executions: dict[int, tuple[object, int, str]] = field(default_factory=dict)

    def place(self, scratchpad: object, call: str) -> int | None:
        """Return the number of the next interrupt of an execution, which begins at 0.

        Returns:
            None if the interrupts of an execution come from several tool calls.
        """
        _, number, by = self.executions.get(id(scratchpad), (scratchpad, 0, ""))
        self.executions[id(scratchpad)] = (scratchpad, number + 1, by or call)
        return number if (by or call) == (call or by) else None

    def note(self, namespace: str, place: int, stop: Interrupt[Any]) -> None:
        """Note that a task waits, after this number of answers."""
        self.values[namespace] = self.values.get(namespace, [])[:place]
        self.latest[namespace] = stop.id

    def other(self, namespace: str, place: int, value: object) -> object:
        """Return what an answer is for, if it is not for what its task asks now; else None."""
        values = self.values.get(namespace, [])
        if place < len(values) and not asks_same(values[place], value):
            return values[place]
        if place == len(values) - 1:
            self.taken.add(self.latest[namespace])
        return None

    def stored(self, stops: Mapping[str, Interrupt[Any]]) -> JsonValue:
        """Return what these interrupts and those before them in their tasks have asked, as JSON.

        Tools of one task may interrupt it side by side; then LangGraph keeps one of the interrupts.
        """
        pack = InMemorySaver().serde.dumps_typed
        return [
            [namespace, id_, *encoded(pack([*self.values[namespace], stops[id_].value]))]
            for namespace, id_ in self.latest.items()
            if id_ in stops
        ]

    @classmethod
    def restored(cls, state: JsonValue, answered: frozenset[str]) -> Self:
        """Return what a stored state says."""
        made, unpack = cls(answered), InMemorySaver().serde.loads_typed
        for namespace, id_, kind, data in cast("dict[str, Any]", state)["asked"]:
            made.values[namespace] = unpack(decoded(kind, data))
            made.latest[namespace] = id_
        return made


_turn: ContextVar[_Turn | None] = ContextVar("signoff_langgraph_turn", default=None)
_runs_once: ContextVar[bool] = ContextVar("signoff_langgraph_runs_once", default=False)
"""Whether the code of an answered task runs here."""
_call_id: ContextVar[str] = ContextVar("signoff_langgraph_tool_call", default="")
"""The id of the tool call whose code runs here."""


class LangGraphAdapter:
    """Runs graphs of LangGraph, and so agents of LangChain."""

    name: str = "langgraph"
    forks: bool = False
    knows_gates: bool = False

    def __init__(self) -> None:
        _watch_tools()
        _watch_tasks()
        _watch_interrupts()

    async def begin(
        self, agent: Pregel[Any, Any, Any, Any], message: str, history: JsonValue, guard: CallGuard
    ) -> FrameworkTurn:
        """Send the user's message; see `Adapter.begin`.

        Raises:
            InvalidRun: The graph does not take messages.
        """
        graph = _compiled(agent)
        if MESSAGES not in graph.channels:
            raise InvalidRun(
                f"The graph of {guard.run.app} has no `messages` in its state, so a message cannot "
                "be said to it. Add them (langgraph.graph.MessagesState)."
            )
        said = {MESSAGES: [{"role": "user", "content": message}]}
        return await self._run(graph, said, restored_thread(history), guard, _Asked())

    async def resume(
        self,
        agent: Pregel[Any, Any, Any, Any],
        state: JsonValue,
        answers: Mapping[str, CallAnswer],
        guard: CallGuard,
    ) -> FrameworkTurn:
        """Answer all interrupts; see `Adapter.resume`."""
        saver = restored_thread(_thread_of(state))
        calls = calls_at_interrupts(saver)
        read = {
            one.id: (one, read_interrupt(one, calls.get(one.id, ())))
            for one in interrupts_of(saver)
        }
        resume = {id_: resumption(*asked, answers) for id_, asked in read.items()}
        own = own_interrupts(saver).keys()
        asked = _Asked.restored(state, interrupted_tasks(saver, own))
        known = own & set(asked.latest.values())
        outcome = await self._run(_compiled(agent), Command(resume=resume), saver, guard, asked)
        if known - asked.taken:
            raise AnswerNotTaken(
                f"The graph of run {guard.run.id} of {guard.run.app} was given an answer, and has "
                "not taken it: the code that asked has not asked again. An agent inside a graph "
                "must not have checkpointer=False. Look at what the graph has done, and submit the "
                "run again."
            )
        return outcome

    async def _run(
        self,
        graph: Pregel[Any, Any, Any, Any],
        given: object,
        saver: InMemorySaver,
        guard: CallGuard,
        asked: _Asked,
    ) -> FrameworkTurn:
        own = graph.copy({"checkpointer": saver})
        agent = guard.run.app if graph.name == _UNNAMED else graph.name
        token = _turn.set(_Turn(guard, agent, made_calls(saver), asked))
        try:
            await own.ainvoke(cast("Any", given), CONFIG)
        except _OtherAsked as end:
            raise end.error from None
        finally:
            _turn.reset(token)
        if interrupts_of(saver):
            state: dict[str, JsonValue] = {
                "thread": stored_thread(saver, saver.storage[THREAD]),
                "agent": agent,
                "declared": await _declared(graph),
                "asked": asked.stored(own_interrupts(saver)),
            }
            return FrameworkTurn(True, state)
        if stops := (await own.aget_state(CONFIG)).next:
            raise PauseNotRoutable(
                f"The graph of run {guard.run.id} of {guard.run.app} has stopped at "
                f"{', '.join(stops)}, where it asks nobody (interrupt_before or interrupt_after). "
                "Let a node call interrupt(), or use HumanInTheLoopMiddleware."
            )
        # Subgraphs that a task has started have ended; the others go on in the next run.
        lasting = [one for one in saver.storage[THREAD] if TASK not in one]
        return FrameworkTurn(False, stored_thread(saver, lasting), last_word(saver))

    def waiting(self, state: JsonValue) -> Sequence[WaitingCall]:
        """Return the calls and requests that wait; see `Adapter.waiting`."""
        saver = restored_thread(_thread_of(state))
        calls, stored = calls_at_interrupts(saver), cast("dict[str, Any]", state)
        declared: dict[str, str] = stored["declared"]
        return [
            replace(
                waiting,
                agent=stored["agent"],
                declared=declared.get(waiting.tool, "") if waiting.in_tool else "",
            )
            for one in interrupts_of(saver)
            for waiting in read_interrupt(one, calls.get(one.id, ())).waiting.values()
        ]

    def longer(self, history: JsonValue, state: JsonValue) -> JsonValue:
        """Return the thread of a session after a turn; see `Adapter.longer`."""
        return state


async def _declared(graph: Pregel[Any, Any, Any, Any]) -> dict[str, JsonValue]:
    """Return the declarations of the tools of a graph and of its subgraphs, by name."""
    graphs: list[Any] = [graph, *[one async for _, one in graph.aget_subgraphs(recurse=True)]]
    nodes = [node.bound for one in graphs for node in getattr(one, "nodes", {}).values()]
    return {
        name: _declares(tool)
        for node in nodes
        if isinstance(node, ToolNode)
        for name, tool in node.tools_by_name.items()
    }


def _declares(tool: BaseTool | None) -> str:
    schema = tool.tool_call_schema if tool is not None else None
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schema = schema.model_json_schema()
    return declared_by(schema) if isinstance(schema, dict) else ""


@functools.cache
def _watch_tools() -> None:
    """Put the guard before the tools of every `ToolNode`, once in a process."""
    run_async, run_sync = ToolNode._execute_tool_async, ToolNode._execute_tool_sync  # noqa: SLF001 -- after all wrappers

    async def guarded(self: ToolNode, request: ToolCallRequest, *more: Any) -> Any:  # noqa: ANN401 -- as in the original
        turn = _turn.get()
        if turn is None:
            return await run_async(self, request, *more)
        return await _through(turn, request, lambda own: run_async(self, own, *more))

    def blocking(self: ToolNode, request: ToolCallRequest, *more: Any) -> Any:  # noqa: ANN401 -- the same
        if _turn.get() is not None:
            raise NotImplementedError(
                f"A middleware before {request.tool_call['name']}() has wrap_tool_call and no "
                "awrap_tool_call: Signoff cannot guard the tool there. Write it asynchronously."
            )
        return run_sync(self, request, *more)

    ToolNode._execute_tool_async = guarded  # type: ignore[assignment,method-assign] # noqa: SLF001
    ToolNode._execute_tool_sync = blocking  # type: ignore[assignment,method-assign] # noqa: SLF001


@functools.cache
def _watch_tasks() -> None:
    """Run tasks that continue after an answered interrupt once, also if their graph would retry.

    Their code is what was approved, and it may have run in part before it raised.
    """
    runner: Any = _runner
    run = runner.arun_with_retry

    async def once(
        task: PregelExecutableTask, retry_policy: object, *more: object, **named: object
    ) -> object:
        turn = _turn.get()
        is_answered = turn is not None and task.id in turn.asked.answered
        token = _runs_once.set(_runs_once.get() or is_answered)
        try:
            if _runs_once.get():
                task, retry_policy = replace(task, retry_policy=()), None
            return cast("object", await run(task, retry_policy, *more, **named))
        finally:
            _runs_once.reset(token)

    runner.arun_with_retry = once


_interrupt: Final = FunctionType(
    interrupt.__code__, interrupt.__globals__, argdefs=interrupt.__defaults__
)
"""LangGraph's own `interrupt`."""


@functools.cache
def _watch_interrupts() -> None:
    """Compare what code asks when it runs again with what it has asked, once in a process.

    Modules of agents and of LangChain have imported the function itself, so it gets other code.
    """
    _interrupt.__kwdefaults__ = interrupt.__kwdefaults__
    interrupt.__code__ = _ask_same.__code__


def _ask_same(*args: Any, **named: Any) -> Any:  # noqa: ANN401 -- as in the original
    """Call `_compared`; this code runs with the globals of LangGraph's module."""
    from signoff.worker.frameworks import langgraph  # noqa: PLC0415, PLW0406 -- see above

    return langgraph._compared(*args, **named)  # noqa: SLF001 -- the same


def _compared(*args: Any, **named: Any) -> Any:  # noqa: ANN401 -- as in the original
    """Interrupt a task, or return the answer if it is for what the task asks."""
    turn = _turn.get()
    if turn is None:
        return _interrupt(*args, **named)
    value = args[0] if args else named.get("value")
    config = get_config()["configurable"]
    namespace, scratchpad = str(config[_NAMESPACE]), config[_SCRATCHPAD]
    place = turn.asked.place(scratchpad, _call_id.get())
    if place is None:
        raise turn.stopped(
            "has two tools that call interrupt() in one node, side by side. LangGraph cannot tell "
            "their answers apart. Run each call in a task of its own, as create_agent does."
        )
    try:
        answer = _interrupt(*args, **named)
    except GraphInterrupt as error:
        (stop,) = cast("Any", error).args[0]
        turn.asked.note(namespace, len(scratchpad.resume), stop)
        raise
    if other := turn.asked.other(namespace, place, value):
        raise turn.stopped(
            f"ran the code that waited at an interrupt again, as LangGraph does it, and the code "
            f"asked something else: {brief(as_text(value))} instead of {brief(as_text(other))}. "
            "The answer is not for that, and nothing behind the interrupt was run. Let an earlier "
            "node make what changes, and submit the run again."
        )
    return answer


async def _through(
    turn: _Turn, request: ToolCallRequest, inner: Callable[[ToolCallRequest], Awaitable[Any]]
) -> Any:  # noqa: ANN401 -- a message or a command
    """Send a call through the guard, with its own copy of the arguments."""
    made, guard = request.tool_call, turn.guard
    own = request.override(tool_call={**made, "args": copied(made["args"])})
    args, call_id = arguments_of(own.tool_call["args"]), made["id"] or ""
    # Some models use the id of an earlier call again.
    is_reused = turn.before.is_reused(call_id, MadeCalls.of(messages_in(request.state)))
    call = FrameworkCall(
        id=call_id,
        tool=made["name"],
        args=args,
        agent=turn.agent,
        declared=_declares(request.tool),
        approved=guard.expects(call_id) and not is_reused,
    )

    def same(approval: Approval) -> bool:
        """Return whether the tool would get the approved arguments."""
        return same_args(args, approval.call.args)

    async def run() -> Any:  # noqa: ANN401 -- as above
        token = _call_id.set(call.id)
        try:
            return await inner(own)
        except GraphInterrupt as error:
            if not call.approved:
                raise
            raise PauseNotRoutable(
                f"{call.tool}() has asked a question after it was approved, and Signoff cannot "
                "resume a tool in its middle. What it did before the question may have happened; "
                "look at that. Let a node, or a tool without an approval, ask the question."
            ) from error
        finally:
            _call_id.reset(token)

    given = await guard.enter(call, same, run, _kept)
    return given if isinstance(given, ToolMessage | Command | list) else _given(given, request)


def _kept(result: object) -> JsonValue:
    """Return a result as it is stored: the text of a message, or the bytes of anything else."""
    if isinstance(result, ToolMessage) and isinstance(result.content, str):
        return result.content
    kind, data = InMemorySaver().serde.dumps_typed(result)
    return {_BINARY: [kind, base64.b64encode(data).decode()]}


def _given(kept: JsonValue, request: ToolCallRequest) -> Any:  # noqa: ANN401 -- the same
    """Return a stored result, or a refusal, in the form in which a tool returns it."""
    if isinstance(kept, dict) and isinstance(found := kept.get(_BINARY), list):
        return InMemorySaver().serde.loads_typed((str(found[0]), base64.b64decode(str(found[1]))))
    made = request.tool_call
    return ToolMessage(text_of(kept), name=made["name"], tool_call_id=made["id"])


def _compiled(agent: object) -> Pregel[Any, Any, Any, Any]:
    """Return the graph that a module exports; compile it if necessary."""
    return agent.compile() if isinstance(agent, StateGraph) else cast("Any", agent)


def _thread_of(state: JsonValue) -> JsonValue:
    return cast("dict[str, JsonValue]", state)["thread"]
