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
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, Final, Self, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.graph import StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from langgraph.pregel import Pregel, _runner
from langgraph.types import Command, Interrupt, PregelExecutableTask, interrupt
from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import INPUT, Kind
from signoff.core.base.errors import AnswerNotTaken, InputRefused, InvalidRun, PauseNotRoutable
from signoff.core.base.text import brief
from signoff.worker.frameworks.adapter import CallAnswer, FrameworkTurn, WaitingCall
from signoff.worker.frameworks.guard import CallGuard, FrameworkCall, declared_by, same_args
from signoff.worker.running_tools import TurnStopped
from signoff.worker.starting import copied

_THREAD: Final = "thread"
_ROOT: Final = ""
_TASK: Final = ":"
"""Stands before the id of a task in a namespace."""
_INTERRUPT: Final = "__interrupt__"
_UNENDED: Final = frozenset({_INTERRUPT, "__error__", "__resume__", "__scheduled__"})
"""The channels to which tasks that have not ended may have written."""
_BINARY: Final = "langgraph"
_CONFIG: Final[RunnableConfig] = {"configurable": {"thread_id": _THREAD, "checkpoint_ns": _ROOT}}

_UNNAMED: Final = "LangGraph"

_MESSAGES: Final = "messages"
_CHANGES: Final = DeltaChannel[Any](cast("Any", _messages_delta_reducer), list)
"""The channel of messages of graphs that store only its changes, such as those of Deep Agents."""

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
    before: _Made
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
        if place < len(values) and not _is_same(values[place], value):
            return values[place]
        if place == len(values) - 1:
            self.taken.add(self.latest[namespace])
        return None

    def stored(self, stops: Mapping[str, Interrupt[Any]]) -> JsonValue:
        """Return what these interrupts and those before them in their tasks have asked, as JSON.

        Tools of one task may interrupt it side by side; then LangGraph keeps one of the interrupts.
        """
        packed = InMemorySaver().serde.dumps_typed
        return [
            [namespace, id_, *_packed(packed([*self.values[namespace], stops[id_].value]))]
            for namespace, id_ in self.latest.items()
            if id_ in stops
        ]

    @classmethod
    def restored(cls, state: JsonValue, answered: frozenset[str]) -> Self:
        """Return what a stored state says."""
        made, unpacked = cls(answered), InMemorySaver().serde.loads_typed
        for namespace, id_, kind, data in cast("dict[str, Any]", state)["asked"]:
            made.values[namespace] = unpacked(_unpacked(kind, data))
            made.latest[namespace] = id_
        return made


@dataclass(frozen=True, slots=True)
class _Made:
    """The calls that a model has made, by their ids.

    Attributes:
        results: How many results there are for each id.
        waiting: The ids whose latest call has no result yet.
    """

    results: Counter[str]
    waiting: frozenset[str]

    @classmethod
    def of(cls, messages: Iterable[object]) -> Self:
        """Return the calls in the messages of one graph."""
        results, latest = Counter[str](), dict[str, bool]()
        for one in messages:
            if isinstance(one, AIMessage):
                latest.update((call["id"] or "", True) for call in one.tool_calls)
            elif isinstance(one, ToolMessage):
                results[one.tool_call_id] += 1
                latest[one.tool_call_id] = False
        return cls(results, frozenset(id_ for id_, waits in latest.items() if waits))

    def is_reused(self, call_id: str, now: _Made) -> bool:
        """Return whether a call must be a later one with the id of a call that has a result."""
        before = self.results[call_id]
        least = before + 1 if call_id in self.waiting else max(before, 1)
        return now.results[call_id] >= least


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
        if _MESSAGES not in graph.channels:
            raise InvalidRun(
                f"The graph of {guard.run.app} has no `messages` in its state, so a message cannot "
                "be said to it. Add them (langgraph.graph.MessagesState)."
            )
        said = {_MESSAGES: [{"role": "user", "content": message}]}
        return await self._run(graph, said, _restored(history), guard, _Asked())

    async def resume(
        self,
        agent: Pregel[Any, Any, Any, Any],
        state: JsonValue,
        answers: Mapping[str, CallAnswer],
        guard: CallGuard,
    ) -> FrameworkTurn:
        """Answer all interrupts; see `Adapter.resume`."""
        saver = _restored(_thread_of(state))
        calls = _calls_at_interrupts(saver)
        read = {one.id: (one, _read(one, calls.get(one.id, ()))) for one in _interrupts(saver)}
        resume = {id_: _resumption(*asked, answers) for id_, asked in read.items()}
        own = _own_interrupts(saver).keys()
        asked = _Asked.restored(state, _interrupted(saver, own))
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
        token = _turn.set(_Turn(guard, agent, _made(saver), asked))
        try:
            await own.ainvoke(cast("Any", given), _CONFIG)
        except _OtherAsked as end:
            raise end.error from None
        finally:
            _turn.reset(token)
        if _interrupts(saver):
            state: dict[str, JsonValue] = {
                "thread": _stored(saver, saver.storage[_THREAD]),
                "agent": agent,
                "declared": await _declared(graph),
                "asked": asked.stored(_own_interrupts(saver)),
            }
            return FrameworkTurn(True, state)
        if stops := (await own.aget_state(_CONFIG)).next:
            raise PauseNotRoutable(
                f"The graph of run {guard.run.id} of {guard.run.app} has stopped at "
                f"{', '.join(stops)}, where it asks nobody (interrupt_before or interrupt_after). "
                "Let a node call interrupt(), or use HumanInTheLoopMiddleware."
            )
        # Subgraphs that a task has started have ended; the others go on in the next run.
        lasting = [one for one in saver.storage[_THREAD] if _TASK not in one]
        return FrameworkTurn(False, _stored(saver, lasting), _last_word(saver))

    def waiting(self, state: JsonValue) -> Sequence[WaitingCall]:
        """Return the calls and requests that wait; see `Adapter.waiting`."""
        saver = _restored(_thread_of(state))
        calls, stored = _calls_at_interrupts(saver), cast("dict[str, Any]", state)
        declared: dict[str, str] = stored["declared"]
        return [
            replace(
                waiting,
                agent=stored["agent"],
                declared=declared.get(waiting.tool, "") if waiting.in_tool else "",
            )
            for one in _interrupts(saver)
            for waiting in _read(one, calls.get(one.id, ())).waiting.values()
        ]

    def longer(self, history: JsonValue, state: JsonValue) -> JsonValue:
        """Return the thread of a session after a turn; see `Adapter.longer`."""
        return state


@dataclass(frozen=True, slots=True)
class _Read:
    """The meaning of an interrupt.

    Attributes:
        waiting: The calls and requests that wait in it, by id.
        allowed: The answers that are allowed for each, by id, in the terms of its schema.
        shape: The form that the answer must have.
    """

    waiting: dict[str, WaitingCall]
    allowed: dict[str, frozenset[str]]
    shape: str


def _read(interrupt: Interrupt[Any], calls: Sequence[Mapping[str, Any]]) -> _Read:
    """Read an interrupt.

    Args:
        interrupt: The interrupt.
        calls: The calls of the last message of the model that was interrupted.

    Raises:
        ValueError: Two of the calls have one id.
    """
    value = interrupt.value
    if isinstance(value, dict) and "action_requests" in value and "review_configs" in value:
        return _read_batch(interrupt, calls)
    if isinstance(value, dict) and value.get("type") == "tool_approval":
        _require_unique(calls)
        schema = json.dumps(interrupt.response_schema)
        kinds = ("approve", "edit", "reject", "respond")
        allowed = frozenset(one for one in kinds if f'"const": "{one}"' in schema)
        one = _tool_call(value["tool_call_id"], value, allowed)
        return _Read({one.id: one}, {one.id: allowed}, "decision")
    requests = value if isinstance(value, list) else [value]
    if requests and all(isinstance(one, dict) and "action_request" in one for one in requests):
        return _read_inbox(interrupt, requests)
    one = _question(interrupt.id, _as_text(value), None, interrupt.response_schema)
    # For code such as `if interrupt(…):` each word is a yes.
    one = replace(one, takes_words=False)
    return _Read({one.id: one}, {one.id: frozenset()}, "value")


def _require_unique(calls: Sequence[Mapping[str, Any]]) -> None:
    """Refuse calls of one message that cannot be told apart.

    Raises:
        ValueError: Two have one id.
    """
    if len({call["id"] for call in calls}) < len(calls):
        raise ValueError("its model has given two calls of one message the same id")


def _read_batch(interrupt: Interrupt[Any], calls: Sequence[Mapping[str, Any]]) -> _Read:
    """Read a request of the middleware: its actions are calls of the model, in their order.

    Raises:
        ValueError: Two of these calls have one id.
    """
    _require_unique(calls)
    left = list(calls)
    waiting: dict[str, WaitingCall] = {}
    allowed: dict[str, frozenset[str]] = {}
    for place, action in enumerate(interrupt.value["action_requests"]):
        may = frozenset(interrupt.value["review_configs"][place]["allowed_decisions"])
        at = _place_of(action, left)
        if at is None:
            # No call of a model, so it does not go through the guard.
            call_id = f"{interrupt.id}/{place}"
            waiting[call_id] = replace(_tool_call(call_id, action, may), in_tool=False)
        else:
            call_id = left[at]["id"]
            waiting[call_id] = _tool_call(call_id, {**action, "args": left[at]["args"]}, may)
            del left[at]
        allowed[call_id] = may
    return _Read(waiting, allowed, "decisions")


def _place_of(action: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the place of the call that an action is about, None if there is none.

    The middleware may show other arguments than those with which the tool would run.
    """
    same = [at for at, one in enumerate(calls) if one["name"] == action["name"]]
    exact = (at for at in same if calls[at]["args"] == action["args"])
    return next(exact, next(iter(same), None))


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


def _tool_call(call_id: str, action: Mapping[str, Any], allowed: frozenset[str]) -> WaitingCall:
    """Return a call that the middleware asks about; a request for input if it needs a response."""
    asks = "approve" not in allowed and "respond" in allowed
    hint = str(action.get("description") or "")
    # The default text of the middleware, which repeats what the card shows.
    if hint.startswith("Tool execution requires approval\n\nTool: "):
        hint = ""
    if asks:
        return _question(call_id, hint or f"{action['name']}()", action["args"])
    return WaitingCall(
        id=call_id,
        tool=action["name"],
        args=_arguments(action["args"]),
        hint=hint,
        edits="edit" in allowed,
    )


def _read_inbox(interrupt: Interrupt[Any], requests: Sequence[Mapping[str, Any]]) -> _Read:
    """Read requests in the schema of Agent Inbox."""
    waiting: dict[str, WaitingCall] = {}
    allowed: dict[str, frozenset[str]] = {}
    for place, request in enumerate(requests):
        action, config = request["action_request"], request.get("config") or {}
        request_id = f"{interrupt.id}/{place}"
        may = frozenset(name.removeprefix("allow_") for name, yes in config.items() if yes)
        hint, args = str(request.get("description") or ""), _arguments(action.get("args") or {})
        if "accept" not in may and "respond" in may:
            waiting[request_id] = _question(request_id, hint or str(action["action"]), args)
        else:
            waiting[request_id] = WaitingCall(
                id=request_id,
                tool=action["action"],
                args=args,
                hint=hint,
                edits="edit" in may,
                in_tool=False,
            )
        allowed[request_id] = may
    return _Read(waiting, allowed, "inbox")


def _question(id_: str, message: str, payload: object, schema: object = None) -> WaitingCall:
    """Return a request for input."""
    return WaitingCall(
        id=id_,
        tool=INPUT,
        args={
            "message": message,
            "payload": _jsonable(payload),
            "response_schema": schema if isinstance(schema, dict) else None,
        },
        kind=Kind.INPUT,
        in_tool=False,
    )


def _resumption(
    interrupt: Interrupt[Any], read: _Read, answers: Mapping[str, CallAnswer]
) -> object:
    """Return the value with which an interrupt is resumed.

    Raises:
        InputRefused: It was rejected, but does not allow a rejection.
    """
    if read.shape == "value":
        return answers[interrupt.id].value
    say = _inbox_answer if read.shape == "inbox" else _decision
    said = [say(one, read.allowed[id_], answers[id_]) for id_, one in read.waiting.items()]
    if read.shape == "decisions":
        return {"decisions": said}
    return said if read.shape == "inbox" else said[0]


def _decision(
    waiting: WaitingCall, allowed: frozenset[str], answer: CallAnswer
) -> dict[str, object]:
    if waiting.kind is Kind.INPUT:
        return {"type": "respond", "message": _text(answer.value)}
    if answer.refusal is not None:
        if "reject" in allowed:
            return {"type": "reject", "message": answer.refusal}
        if "respond" in allowed:
            return {"type": "respond", "message": answer.refusal}
        raise InputRefused(_no_rejection(waiting, answer.refusal))
    if answer.args is not None:
        edited = {"name": waiting.tool, "args": answer.args}
        return {"type": "edit", "edited_action": edited}
    return {"type": "approve"}


def _inbox_answer(
    waiting: WaitingCall, allowed: frozenset[str], answer: CallAnswer
) -> dict[str, object]:
    if waiting.kind is Kind.INPUT:
        return {"type": "response", "args": _text(answer.value)}
    if answer.refusal is not None:
        if "respond" in allowed:
            return {"type": "response", "args": answer.refusal}
        if "ignore" in allowed:
            return {"type": "ignore", "args": None}
        raise InputRefused(_no_rejection(waiting, answer.refusal))
    if answer.args is not None:
        return {"type": "edit", "args": {"action": waiting.tool, "args": answer.args}}
    return {"type": "accept", "args": None}


def _no_rejection(waiting: WaitingCall, why: str) -> str:
    return (
        f"{waiting.tool} was not approved, and its interrupt allows no rejection, so the run ends "
        f"here: {why}"
    )


def _as_text(value: object) -> str:
    return _text(value if isinstance(value, str) else _jsonable(value))


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
            f"asked something else: {brief(_as_text(value))} instead of {brief(_as_text(other))}. "
            "The answer is not for that, and nothing behind the interrupt was run. Let an earlier "
            "node make what changes, and submit the run again."
        )
    return answer


def _is_same(one: object, other: object) -> bool:
    """Return whether two interrupts ask the same; their descriptions may differ."""
    one, other = _content(one), _content(other)
    return bool(one == other) or _jsonable(one) == _jsonable(other)


def _content(value: object) -> object:
    """Return what an interrupt asks about, without descriptions."""
    if isinstance(value, dict) and isinstance(actions := value.get("action_requests"), list):
        return [(one.get("name"), one.get("args")) for one in actions]
    requests: list[Any] = value if isinstance(value, list) else [value]
    if requests and all(isinstance(one, dict) and "action_request" in one for one in requests):
        return [one["action_request"] for one in requests]
    return value


async def _through(
    turn: _Turn, request: ToolCallRequest, inner: Callable[[ToolCallRequest], Awaitable[Any]]
) -> Any:  # noqa: ANN401 -- a message or a command
    """Send a call through the guard, with its own copy of the arguments."""
    made, guard = request.tool_call, turn.guard
    own = request.override(tool_call={**made, "args": copied(made["args"])})
    args, call_id = _arguments(own.tool_call["args"]), made["id"] or ""
    # Some models use the id of an earlier call again.
    is_reused = turn.before.is_reused(call_id, _Made.of(_messages_in(request.state)))
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
    return ToolMessage(_text(kept), name=made["name"], tool_call_id=made["id"])


def _compiled(agent: object) -> Pregel[Any, Any, Any, Any]:
    """Return the graph that a module exports; compile it if necessary."""
    return agent.compile() if isinstance(agent, StateGraph) else cast("Any", agent)


def _thread_of(state: JsonValue) -> JsonValue:
    return cast("dict[str, JsonValue]", state)["thread"]


def _latest(saver: InMemorySaver) -> CheckpointTuple | None:
    return saver.get_tuple(_CONFIG)


def _interrupts(saver: InMemorySaver) -> list[Interrupt[Any]]:
    """Return the unanswered interrupts."""
    latest = _latest(saver)
    return _interrupts_in(latest) if latest is not None else []


def _interrupts_in(checkpoint: CheckpointTuple) -> list[Interrupt[Any]]:
    """Return the interrupts of the tasks that have not ended; those of ended ones stay stored."""
    writes = checkpoint.pending_writes or []
    ended = {task for task, channel, _ in writes if channel not in _UNENDED}
    found = [
        one
        for task, channel, value in writes
        if channel == _INTERRUPT and task not in ended
        for one in value
    ]
    return list({one.id: one for one in found}.values())


def _own_interrupts(saver: InMemorySaver) -> dict[str, Interrupt[Any]]:
    """Return the interrupts whose answers resume code of the graph itself, by their ids."""
    calls = _calls_at_interrupts(saver)
    return {
        one.id: one
        for one in _interrupts(saver)
        if not all(asked.in_tool for asked in _read(one, calls.get(one.id, ())).waiting.values())
    }


def _interrupted(saver: InMemorySaver, interrupts: Collection[str]) -> frozenset[str]:
    """Return the ids of the tasks that wait for these interrupts, themselves or in a subgraph."""
    return frozenset(
        task
        for latest in _latest_of_graphs(saver)
        for task, channel, value in latest.pending_writes or []
        if channel == _INTERRUPT and any(one.id in interrupts for one in value)
    )


def _latest_of_graphs(saver: InMemorySaver) -> Iterator[CheckpointTuple]:
    """Yield the latest checkpoint of the thread, and then those of its waiting subgraphs.

    That of a graph comes before those of its own subgraphs.
    """
    for namespace in sorted(saver.storage[_THREAD]):
        config: RunnableConfig = {
            "configurable": {"thread_id": _THREAD, "checkpoint_ns": namespace}
        }
        if (latest := saver.get_tuple(config)) is not None:
            yield latest


def _messages_at(saver: InMemorySaver, checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the messages in a checkpoint, which may have only what has changed since others."""
    values = checkpoint.checkpoint["channel_values"]
    if _MESSAGES in values:
        found = _CHANGES.from_checkpoint(values[_MESSAGES])
    else:
        past = saver.get_delta_channel_history(config=checkpoint.config, channels=[_MESSAGES])
        found = _CHANGES.from_checkpoint(past[_MESSAGES].get("seed", []))
        found.replay_writes(past[_MESSAGES]["writes"])
    return found.get() or []


def _messages_by_graph(saver: InMemorySaver) -> Iterator[list[BaseMessage]]:
    """Yield the messages of the thread, and then those of each of its waiting subgraphs."""
    return (_messages_at(saver, one) for one in _latest_of_graphs(saver))


def _messages_in(state: object) -> Iterable[object]:
    """Return the messages in a state of a graph, which may be a list, a mapping or a model."""
    if isinstance(state, Mapping):
        state = state.get(_MESSAGES)
    found = state if isinstance(state, list) else getattr(state, "messages", None)
    return found if isinstance(found, list) else []


def _made(saver: InMemorySaver) -> _Made:
    """Return the calls of a thread and its subgraphs, which may have copies of its messages."""
    results, waiting = Counter[str](), frozenset[str]()
    for messages in _messages_by_graph(saver):
        made = _Made.of(messages)
        results, waiting = results | made.results, waiting | made.waiting
    return _Made(results, waiting)


def _calls_at_interrupts(saver: InMemorySaver) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the calls of the last message of the model at each interrupt, by its id.

    An interrupt is in the checkpoints of the graph that it has interrupted, and of all graphs
    around it. The innermost one with calls has made them: agents may work side by side.
    """
    found: dict[str, Sequence[Mapping[str, Any]]] = {}
    for one in _latest_of_graphs(saver):
        spoken = [said for said in _messages_at(saver, one) if isinstance(said, AIMessage)]
        calls = next((said.tool_calls for said in reversed(spoken) if said.tool_calls), None)
        if calls:
            found |= dict.fromkeys((stop.id for stop in _interrupts_in(one)), calls)
    return found


def _last_word(saver: InMemorySaver) -> str:
    """Return the last message of the thread's model, or of a subgraph's if the thread has none."""
    spoken = (
        [one for one in said if isinstance(one, AIMessage)] for said in _messages_by_graph(saver)
    )
    last = next((said[-1] for said in spoken if said), None)
    return str(last.text) if last is not None else ""


def _stored(saver: InMemorySaver, namespaces: Iterable[str]) -> JsonValue:
    """Return the parts of a thread that are needed to go on with it, as JSON.

    Args:
        saver: The thread.
        namespaces: Those of the graphs that go on.
    """
    storage = saver.storage[_THREAD]
    kept = {
        (namespace, checkpoint_id)
        for namespace in namespaces
        if storage[namespace]
        for checkpoint_id in _needed(saver, namespace, max(storage[namespace]))
    }
    named = {
        (namespace, channel, version)
        for namespace, checkpoint_id in kept
        for channel, version in _versions(saver, namespace, checkpoint_id)
    }
    return [
        [
            [namespace, id_, *_packed(one), *_packed(metadata), parent]
            for namespace, id_ in sorted(kept)
            for one, metadata, parent in [storage[namespace][id_]]
        ],
        [
            [namespace, id_, task, index, channel, *_packed(value), path]
            for (_, namespace, id_), writes in saver.writes.items()
            if (namespace, id_) in kept
            for (task, index), (_, channel, value, path) in writes.items()
        ],
        [
            [namespace, channel, version, *_packed(value)]
            for (_, namespace, channel, version), value in saver.blobs.items()
            if (namespace, channel, version) in named
        ],
    ]


def _needed(saver: InMemorySaver, namespace: str, checkpoint_id: str) -> Iterator[str]:
    """Yield a checkpoint, and the earlier ones from which its channels are computed.

    A `DeltaChannel` stores only its changes, and now and then its whole value.
    """
    lacking: set[str] | None = None
    current: str | None = checkpoint_id
    while current is not None and (lacking is None or lacking):
        yield current
        _, packed, parent = saver.storage[_THREAD][namespace][current]
        if lacking is None:
            metadata = saver.serde.loads_typed(packed)
            lacking = set(metadata.get("counters_since_delta_snapshot") or ())
        else:
            versions = dict(_versions(saver, namespace, current))
            blobs = {
                one: saver.blobs.get((_THREAD, namespace, one, versions.get(one, "")))
                for one in lacking
            }
            lacking -= {
                one for one, blob in blobs.items() if blob is not None and blob[0] != "empty"
            }
        current = parent


def _versions(
    saver: InMemorySaver, namespace: str, checkpoint_id: str
) -> Iterator[tuple[str, str | int | float]]:
    checkpoint = saver.serde.loads_typed(saver.storage[_THREAD][namespace][checkpoint_id][0])
    yield from checkpoint["channel_versions"].items()


def _restored(state: JsonValue) -> InMemorySaver:
    """Return a checkpointer with the stored thread; an empty one for None."""
    saver = InMemorySaver()
    checkpoints, writes, blobs = cast("list[list[Any]]", state or [[], [], []])
    for namespace, id_, *packed, parent in checkpoints:
        one, metadata = _unpacked(*packed[:2]), _unpacked(*packed[2:])
        saver.storage[_THREAD][namespace][id_] = (one, metadata, parent)
    for namespace, id_, task, index, channel, kind, data, path in writes:
        value = (task, channel, _unpacked(kind, data), path)
        saver.writes[_THREAD, namespace, id_][task, index] = value
    for namespace, channel, version, kind, data in blobs:
        saver.blobs[_THREAD, namespace, channel, version] = _unpacked(kind, data)
    return saver


def _packed(value: tuple[str, bytes]) -> list[str]:
    return [value[0], base64.b64encode(value[1]).decode()]


def _unpacked(kind: str, data: str) -> tuple[str, bytes]:
    return kind, base64.b64decode(data)


def _arguments(args: object) -> dict[str, JsonValue]:
    found = _jsonable(args)
    return found if isinstance(found, dict) else {"arguments": found}


def _jsonable(value: object) -> Any:  # noqa: ANN401 -- JSON
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")
