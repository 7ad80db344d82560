"""The host of the sandbox: it provides tools, HTTP and variables under the rules."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event_actions import EventActions
from google.adk.tools._confirmation_utils import apply_confirmation_gate
from google.adk.tools.base_tool import BaseTool

from signoff.worker.adk.guard.journals import first_id
from signoff.worker.ces import http
from signoff.worker.ces.errors import CodeError, CodeFailed, SnapshotRefused
from signoff.worker.ces.journal import CallJournal, CallResult, OutsideCall, frozen
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.sandbox import Answer, Done, SuspendedCall
from signoff.worker.ces.translate import variables
from signoff.worker.starting import copied

_POLL: Final = 1.0
"""Seconds that a poll of an asynchronous call waits before it returns "not yet"."""

_MOST_DEEP: Final = 5
_MISSING: Final = object()
VARIABLES: Final = frozenset({"set_variable", "remove_variable"})
"""The functions that change a variable; calls of them can wait for an approval."""

_IN_DOUBT: Final = (
    "was being called when a worker died: it may or may not have happened, and a callback cannot "
    "wait for somebody to look"
)


@dataclass
class CodeHost:
    """Answers the outside calls of one run of code.

    Attributes:
        rules: What the code may do.
        context: The ADK context of the tool call, or of the callback.
        tools: The members of `tools` and `async_tools`, by name.
        may_wait: Whether the code can be suspended; a callback cannot.
        depth: How many runs of code this run is nested in.
        kept: The state of a suspended run.
        journal: The journal of this stretch; None outside of our workers.
        lane: Identifies this run among concurrent and nested runs.
    """

    rules: Rules
    context: Context
    tools: Mapping[str, BaseTool]
    may_wait: bool = True
    depth: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    journal: CallJournal | None = None
    lane: str = ""

    def __post_init__(self) -> None:
        self.lane = self.kept.get("lane", self.lane)
        self._results: dict[str, Any] = dict(self.kept.get("results", {}))
        self._started: int = self.kept.get("started", 0)
        self._calls: int = self.kept.get("calls", 0)
        self._given: dict[str, Any] = {}
        self._asked: dict[str, Any] = {}
        self._running: dict[str, asyncio.Task[Answer | SuspendedCall]] = {}
        self.pending: list[Any] = list(self.kept.get("pending", []))

    async def __call__(
        self, kind: str, args: dict[str, Any], state: dict[str, Any]
    ) -> Answer | SuspendedCall:
        """Answer one call, or report that it waits for an approval.

        Args:
            kind: "tool", "start", "poll", "http", "set_variable", "remove_variable" or "end".
            args: The arguments of the call.
            state: The variables, as the code has them.
        """
        if refused := self._take_over(state):
            if kind == "end":
                raise CodeFailed(refused)
            return self._answer(state, {"refused": refused})
        if kind == "end":
            return {}
        if kind == "poll":
            return await self._poll(args, state)
        if kind == "http":
            try:
                http.check(args)
            except http.HttpRefused as error:
                return self._answer(state, {"error": str(error)})
        name, shown = _named(kind, args)
        if (waits := await self._waits(name, shown)) and not await self._was_made(kind, args):
            return self._held(kind, args, waits, state)
        return await self.perform(kind, args, state)

    async def perform(
        self, kind: str, args: dict[str, Any], state: dict[str, Any] | None, *, yes: Any = None
    ) -> Answer | SuspendedCall:
        """Execute a call; `yes` is its confirmation, if it has one."""
        done: Answer | SuspendedCall
        match kind:
            case "tool":
                done = await self._tool(args, self.lane, yes)
            case "start":
                number = str(self._started)
                task = asyncio.create_task(self._tool(args, self._next_lane(), yes))
                self._started += 1
                self._running[number] = task
                self._asked[number] = args
                done = {"number": number}
            case "http":
                done, args = await self._http(args, yes)
            case "set_variable":
                self.context.state[str(args["key"])] = args["value"]
                done = {}
            case "remove_variable":
                self.context.state[str(args["key"])] = None
                done = {}
            case _:
                raise ValueError(f"There is no call {kind!r} to the outside.")
        if isinstance(done, SuspendedCall):
            return self._held(kind, args, done, state)
        return self._answer(state, done)

    async def refused(self, why: str) -> Answer | SuspendedCall:
        """Return the answer to a call that was rejected and must not be made.

        If an earlier worker has made the call, the code gets its result.
        """
        kind, args = self.pending
        if self.journal is not None and kind not in VARIABLES:
            await self.journal.open()
            call = self._call(kind, args)
            if self.journal.has_ended(call):
                return await self.perform(kind, args, None)
            self.journal.forget(call)
        if came := args.get(http.FROM) if kind == "http" else None:
            why = f"{why} It was redirected here by {came[-1]}, which had been requested before."
        return self._answer(None, {"refused": why})

    def inner(self, done: Done) -> Answer:
        """Return the answer to a call of a tool that was itself suspended and has ended."""
        return self._answer(None, {"response": _response(done.result)})

    async def settle(self) -> dict[str, Any]:
        """Finish all asynchronous calls, and return the state that a later process needs."""
        for number, task in list(self._running.items()):
            done = await task
            self._results[number] = _frozen(done, self._asked[number])
        self._running.clear()
        return {
            "results": self._results,
            "started": self._started,
            "calls": self._calls,
            "pending": self.pending,
            "lane": self.lane,
            # Only the outermost run stores them: it is suspended last, and resumes first.
            "left": self.journal.left() if self.journal and not self.depth else [],
        }

    async def close(self) -> None:
        """Stop asynchronous calls that still run."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def variables(self) -> dict[str, Any]:
        """Return the current variables for the code."""
        self._given = copy.deepcopy(variables(self.context))
        return self._given

    def _answer(self, state: dict[str, Any] | None, done: dict[str, Any]) -> Answer:
        now = self.variables()
        return done if _is_same(now, state) else {**done, "state": now}

    def _take_over(self, state: dict[str, Any]) -> str:
        """Store the variables that the code has changed; return why one may not change, or "".

        A changed variable differs from the value that the code was given. A difference from the
        current value is not enough: a concurrent call may have changed it.
        """
        before, self._given = self._given, state
        now = variables(self.context)
        for key in {*before, *state}:
            value = state.get(key, _MISSING)
            if any(_is_same(value, one.get(key, _MISSING)) for one in (before, now)):
                continue
            kind = "set_variable" if key in state else "remove_variable"
            args = {"key": key, "value": state[key]} if key in state else {"key": key}
            if self._facts_ask(kind, args):
                return (
                    f"the variable {key} needs approval: use {kind}({key!r}, …), which can wait "
                    "for one. It was not changed."
                )
            self.context.state[key] = state.get(key)
        return ""

    def _held(
        self, kind: str, args: dict[str, Any], held: SuspendedCall, state: dict[str, Any] | None
    ) -> Answer | SuspendedCall:
        """Return a call that waits for an approval, or refuse it if the code cannot wait."""
        if not self.may_wait:
            why = (
                _IN_DOUBT if held.doubtful else "needs approval, and a callback cannot wait for one"
            )
            return self._answer(
                state,
                {"refused": f"{held.tool} {why}. Make this call in a tool, which can wait."},
            )
        self.pending = [kind, args]
        return held

    async def _waits(
        self, name: str, shown: dict[str, Any], hint: str = ""
    ) -> SuspendedCall | None:
        """Return a call if the code has to stop at it: it needs an approval, or it is frozen."""
        if self._facts_ask(name, shown):
            return SuspendedCall(name, shown, hint=hint)
        if name in VARIABLES or (freeze := await frozen(self.context, name)) is None:
            return None
        return SuspendedCall(
            name, shown, hint=f"{hint} {freeze.stops} is frozen: {freeze.why}.".lstrip()
        )

    async def _was_made(self, kind: str, args: dict[str, Any]) -> bool:
        if self.journal is None or kind in VARIABLES:
            return False
        await self.journal.open()
        return self.journal.has(self._call(kind, args))

    def _call(self, kind: str, args: dict[str, Any], *, sure: bool = False) -> OutsideCall:
        lane = self._next_lane() if kind == "start" else self.lane
        return _call(kind, args, lane, sure=sure)

    def _next_lane(self) -> str:
        return f"{self.lane}/{self._started}"

    def _facts_ask(self, tool: str, args: dict[str, Any]) -> bool:
        return self.rules.asks(
            {
                "app": self.context.session.app_name,
                "agent": self.context.agent_name,
                "user": self.context.session.user_id,
                "tool": tool,
                "args": args,
            }
        )

    async def _poll(self, args: dict[str, Any], state: dict[str, Any]) -> Answer | SuspendedCall:
        number = str(args.get("number"))
        task = self._running.get(number)
        if task is not None:
            await asyncio.wait({task}, timeout=_POLL)
            if not task.done():
                return self._answer(state, {})
            self._results[number] = _frozen(await task, self._asked[number])
            del self._running[number]
        if number not in self._results:
            raise ValueError(f"No asynchronous call has the number {number}.")
        found = self._results[number]
        if "held" in found:
            held = found["held"]
            return self._held(
                "tool",
                held["asked"],
                SuspendedCall(
                    held["tool"],
                    held["args"],
                    tuple(held["frames"]),
                    held["hint"],
                    doubtful=held.get("doubtful", False),
                ),
                state,
            )
        return self._answer(state, found)

    async def _tool(self, asked: dict[str, Any], lane: str, yes: Any) -> Answer | SuspendedCall:
        name, args = str(asked.get("name")), dict(asked.get("args") or {})
        tool = self.tools.get(name)
        if tool is None:
            raise ValueError(f"There is no tool {name!r}.")
        self._calls += 1
        # A tool that is sandboxed code itself can wait inside this call.
        run = getattr(tool, "in_sandbox", None)
        try:
            if run is not None:
                if self.depth >= _MOST_DEEP:
                    return _failed(f"{name} is called from code in code, {_MOST_DEEP} deep.")
                done = await run(args, self.nested(lane))
                return (
                    done
                    if isinstance(done, SuspendedCall)
                    else {"response": _response(done.result)}
                )
            call_id = f"{first_id(self.context.function_call_id or 'callback')}.{self._calls}"
            return await self._once(
                _call("tool", asked, lane, sure=yes is not None),
                partial(self._adk_tool, tool, args, call_id, yes),
            )
        except CodeError as error:
            return _failed(str(error))

    def nested(self, lane: str | None = None) -> CodeHost:
        """Return the host for a code tool that this code has called."""
        return CodeHost(
            self.rules,
            self.context,
            self.tools,
            self.may_wait,
            self.depth + 1,
            journal=self.journal,
            lane=f"{self.lane if lane is None else lane}+",
        )

    async def _once(
        self, call: OutsideCall, do: Callable[[], Awaitable[CallResult]]
    ) -> Answer | SuspendedCall:
        """Make a call, unless this stretch has already made it, and apply its changes."""
        if self.journal is None:
            outcome = await do()
        else:
            await self.journal.open()
            outcome = await self.journal.once(call, do)
        for key, value in outcome.state.items():
            self.context.state[key] = value
        self.context.actions.artifact_delta.update(outcome.artifacts)
        return outcome.answer

    async def _adk_tool(
        self, tool: BaseTool, args: dict[str, Any], call_id: str, yes: Any
    ) -> CallResult:
        """Run an ADK tool as a call of its own.

        If the tool asks for a confirmation, the code that calls it is suspended.
        """
        actions = EventActions()
        inner = Context(
            _invocation(self.context),
            function_call_id=call_id,
            event_actions=actions,
            tool_confirmation=yes,
        )
        done: Answer | SuspendedCall
        try:
            # Copies: the tool may change them, and an approver has to see the original arguments.
            # Not every tool asks in its own code: usually ADK asks before it runs a tool.
            result: object = await apply_confirmation_gate(tool, copied(args), inner)
            if result is None:
                result = await tool.run_async(args=copied(args), tool_context=inner)
            asked = actions.requested_tool_confirmations.get(call_id)
            waits = asked is not None and yes is None
            hint = asked.hint or "" if asked is not None else ""
            done = (
                SuspendedCall(tool.name, args, hint=hint)
                if waits
                else {"response": _response(result)}
            )
        except Exception as error:  # noqa: BLE001 -- the code gets any error as a response
            done = _failed(f"{tool.name} raised {type(error).__name__}: {error}")
        return CallResult(done, dict(actions.state_delta), dict(actions.artifact_delta))

    async def _http(
        self, asked: dict[str, Any], yes: Any
    ) -> tuple[Answer | SuspendedCall, dict[str, Any]]:
        """Send a request, and follow its redirects; the rules apply to each step separately.

        Returns:
            The answer, or the call that has to be approved first; and the request of that step.
        """
        sure = yes is not None
        while True:
            call = self._call("http", asked, sure=sure)
            answer = await self._once(call, partial(_sent, self.rules, asked))
            if isinstance(answer, SuspendedCall) or "onwards" not in answer:
                return answer, asked
            asked, sure = answer["onwards"], False
            name, shown = _named("http", asked)
            hint = f"{asked[http.FROM][-1]} was requested, and redirects here."
            waits = await self._waits(name, shown, hint)
            if waits is not None and not await self._was_made("http", asked):
                return waits, asked


async def _sent(rules: Rules, asked: dict[str, Any]) -> CallResult:
    try:
        answer = await http.request(rules, asked)
    except http.HttpRefused as error:
        return CallResult({"error": str(error)})
    return CallResult(answer if "onwards" in answer else {"response": answer})


def require_pending(pending: list[Any], tool: str, args: dict[str, Any]) -> None:
    """Refuse to resume code that would make another call than the one that was answered.

    Raises:
        SnapshotRefused: It would make another call.
    """
    kind, asked = pending
    try:
        shown = {**args, **http.place(args)} if kind == "http" else args
        same = _named(kind, asked) == (tool, shown)
    except http.HttpRefused:
        same = False
    if not same:
        raise SnapshotRefused(f"The code is not suspended at {tool}(). It was not resumed.")


def _named(kind: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a call for policies and approvers."""
    match kind:
        case "tool" | "start":
            return str(args.get("name")), dict(args.get("args") or {})
        case "http":
            return f"ces_requests.{str(args.get('method')).lower()}", http.facts(args)
        case _ if kind in VARIABLES:
            return kind, args
    raise ValueError(f"There is no call {kind!r} to the outside.")


def _call(kind: str, args: dict[str, Any], lane: str, *, sure: bool = False) -> OutsideCall:
    name, shown = _named(kind, args)
    reads = kind == "http" and args.get("method") in http.READS
    return OutsideCall(lane, name, shown, args, reads=reads, sure=sure)


def _is_same(one: object, other: object) -> bool:
    """Return whether two values are the same JSON: 1 and True are equal only in Python."""
    if one is _MISSING or other is _MISSING:
        return one is other
    return one == other and _json(one) == _json(other)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _invocation(context: Context) -> InvocationContext:
    return context._invocation_context  # noqa: SLF001 -- ADK has no other way to make a context


def _response(result: Any) -> dict[str, Any]:
    text = result if isinstance(result, str) else json.dumps(result, default=str)
    return {"text": text, "status_code": 200, "reason": "OK"}


def _failed(why: str) -> Answer:
    return {"response": {"text": json.dumps({"error": why}), "status_code": 500, "reason": why}}


def _frozen(done: Answer | SuspendedCall, asked: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(done, SuspendedCall):
        return done
    return {
        "held": {
            "tool": done.tool,
            "args": done.args,
            "frames": list(done.frames),
            "hint": done.hint,
            "doubtful": done.doubtful,
            "asked": asked,
        }
    }
