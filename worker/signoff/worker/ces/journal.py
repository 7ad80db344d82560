"""The journal of a stretch of code: calls are not made twice, even if the worker dies.

After a worker's death the stretch runs again from its beginning. The journal gives the code the
recorded results of its outside calls, so the code reaches the point where it was; later calls are
made. A call that was begun and has no recorded result may or may not have happened, so a person is
asked before it is made. Only a call that just reads is made again without asking.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.agents.context import Context

from signoff.broker.suspended import journals
from signoff.core.base.errors import ToolInDoubt
from signoff.core.base.freezes import Freeze
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.guard.journals import Journals, first_id, own_events
from signoff.worker.ces.sandbox import Answer, SuspendedCall
from signoff.worker.ces.translate import is_plain

_MOST_KEPT: Final = 256 * 1024
_NOT_KEPT: Final = {
    "error": "This call was made by a worker that died; its answer was too large to be kept."
}
_DOUBT: Final = (
    "A worker died while this call was made: it may or may not have happened. Look first. Make it "
    "again?"
)


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A call to the outside.

    Attributes:
        lane: Identifies the concurrent run that makes the call; the calls of one run are
            sequential.
        name: The name of the call, as approvers see it.
        shown: The arguments, as approvers see them.
        args: The arguments.
        reads: Whether the call only reads, so that it may be repeated.
        sure: Whether a person has just approved the call.
    """

    lane: str
    name: str
    shown: dict[str, Any]
    args: dict[str, Any]
    reads: bool = False
    sure: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call.

    Attributes:
        answer: The answer for the code, or the call that has to be approved first.
        state: Its changes to the session's state.
        artifacts: The artifacts that it has saved, with their versions.
    """

    answer: Answer | SuspendedCall
    state: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, int] = field(default_factory=dict)


class CallJournal:
    """The calls of one stretch of code.

    Args:
        kept: Stores the calls.
        left: The recorded calls that the code had not reached when it was last suspended.
    """

    def __init__(self, kept: journals.Journal, left: list[dict[str, Any]]) -> None:
        self._kept = kept
        self._earlier = [(-1, one) for one in left]
        self._read = False
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Read the calls that an earlier worker has recorded.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        async with self._opening:
            if not self._read:
                self._earlier += enumerate(await self._kept.read())
                self._read = True

    def has(self, call: OutsideCall) -> bool:
        """Return whether an earlier worker has begun this call, and the code has not reached it."""
        return self._place(call) is not None

    def left(self) -> list[dict[str, Any]]:
        """Return the recorded calls that the code has not reached yet."""
        return [one for _, one in self._earlier]

    async def once(self, call: OutsideCall, do: Callable[[], Awaitable[CallResult]]) -> CallResult:
        """Make a call, unless an earlier worker has made it.

        If the earlier worker has begun the call and recorded no result, the outcome is a
        `SuspendedCall`: a person has to decide whether the call is made again.

        Raises:
            ToolInDoubt: The code makes other calls than it made with the earlier worker.
            LeaseLost, LedgerUnavailable: See `Ledger.commit`.
        """
        at = self._place(call)
        if at is None:
            self._require_same_way(call)
            place = -1 if call.reads else await self._kept.add(_entry(call, None))
        else:
            place, entry = self._earlier.pop(at)
            end = entry["end"]
            if end is None and not call.sure:
                return CallResult(SuspendedCall(call.name, call.shown, hint=_DOUBT, doubtful=True))
            if end is not None and "asked" not in end:
                return CallResult(end["answer"], end["state"], end["artifacts"])
        outcome = await do()
        entry = _entry(call, _end(outcome))
        if place < 0:
            await self._kept.add(entry)
        else:
            await self._kept.change(place, entry)
        return outcome

    def has_ended(self, call: OutsideCall) -> bool:
        """Return whether an earlier worker has made this call and recorded its result."""
        at = self._place(call)
        end = None if at is None else self._earlier[at][1]["end"]
        return end is not None and "asked" not in end

    def forget(self, call: OutsideCall) -> None:
        """Remove a call that will not be made from the calls that are still expected."""
        at = self._place(call)
        if at is not None:
            self._earlier.pop(at)

    def _place(self, call: OutsideCall) -> int | None:
        key = _key(call)
        return next(
            (
                at
                for at, (_, one) in enumerate(self._earlier)
                if (one["lane"], one["call"]) == (call.lane, key)
            ),
            None,
        )

    def _require_same_way(self, call: OutsideCall) -> None:
        beside = [one for _, one in self._earlier if one["lane"] == call.lane]
        if beside and not call.sure:
            made = ", ".join(f"{one['name']}()" for one in beside)
            raise ToolInDoubt(
                f"Code was run again because its worker died, and it went another way: it calls "
                f"{call.name}() now, and has called {made} before, which is not undone. Nothing "
                "more was called. Let the code make the same calls each time it is given the same "
                "answers: no times or random numbers in them."
            )


def of_call(context: Context, stops: int, left: list[dict[str, Any]]) -> CallJournal | None:
    """Return the journal of a stretch of a tool's code; None outside of our workers."""
    kept = _journals(context)
    found = kept.of_call(context, context.function_call_id or "", stops) if kept else None
    return None if found is None else CallJournal(found, left)


def of_callback(context: Context, kind: str, file: str) -> CallJournal | None:
    """Return the journal of a run of a callback; None outside of our workers.

    A tool callback is identified by the id of the call. A model callback is identified by the
    number of the agent's events, and an agent callback by the number of the user's events in this
    invocation, because ADK runs agent callbacks again for each answer.
    """
    kept = _journals(context)
    if kept is None:
        return None
    if context.function_call_id:
        place = first_id(context.function_call_id)
    elif "model" in kind:
        place = str(len(own_events(context)))
    else:
        place = str(_answers(context))
    branch = context._invocation_context.branch or ""  # noqa: SLF001 -- ADK has no public access to the branch
    found = kept.of_callback(context, kind, file, context.agent_name, branch, place)
    return None if found is None else CallJournal(found, [])


async def will_be_repeated(context: Context) -> bool:
    """Return whether the guard repeats the model's last response; see `Journals.repeated_response`.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    kept = _journals(context)
    return kept is not None and await kept.repeated_response(context) is not None


def has_guard(context: Context) -> bool:
    """Return whether this runs under our guard, which gives suspended code its snapshots."""
    return _journals(context) is not None


async def frozen(context: Context, tool: str) -> Freeze | None:
    """Return the freeze that stops a tool that code calls; None if there is none.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    guard = _guard(context)
    return None if guard is None else await guard.frozen(tool, context)


def _answers(context: Context) -> int:
    mine = [one for one in context.session.events if one.invocation_id == context.invocation_id]
    return sum(one.author == "user" for one in mine)


def _journals(context: Context) -> Journals | None:
    guard = _guard(context)
    return None if guard is None else guard.journals


def _guard(context: Context) -> GuardPlugin | None:
    invocation = context._invocation_context  # noqa: SLF001 -- ADK has no public access to the plugins
    plugins = invocation.plugin_manager.plugins
    return next((one for one in plugins if isinstance(one, GuardPlugin)), None)


def _key(call: OutsideCall) -> str:
    text = json.dumps([call.name, call.args], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _entry(call: OutsideCall, end: dict[str, Any] | None) -> dict[str, Any]:
    return {"lane": call.lane, "call": _key(call), "name": call.name, "end": end}


def _end(outcome: CallResult) -> dict[str, Any]:
    if isinstance(outcome.answer, SuspendedCall):
        # The tool's own code has asked for a confirmation, and will ask again.
        return {"asked": True}
    state = {key: value for key, value in outcome.state.items() if is_plain(value)}
    end = {"answer": outcome.answer, "state": state, "artifacts": outcome.artifacts}
    if len(json.dumps(end)) > _MOST_KEPT:
        return {"answer": dict(_NOT_KEPT), "state": {}, "artifacts": {}}
    return end
