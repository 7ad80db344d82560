"""What a stretch of code has called: made once, also when its worker dies and it is run again.

A stretch that is run again is run from its beginning. What it asks of the outside is answered from
the journal as long as that has an answer, so it comes to where it was; from there on calls are
made. A call that was begun and has no answer may have happened or not, and is asked about.
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
from signoff.worker.ces.sandbox import Answer, Held
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
class Call:
    """A call to the outside.

    Attributes:
        lane: Which of the runs of code that go on side by side makes it: within one of them, calls
            come one after the other.
        name: What is called, as an approver is shown it.
        shown: With what, as an approver is shown it.
        args: With what.
        reads: Whether it changes nothing outside, and may be made again.
        sure: Whether a person has just said that it is to be made.
    """

    lane: str
    name: str
    shown: dict[str, Any]
    args: dict[str, Any]
    reads: bool = False
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call has come to.

    Attributes:
        answer: What the code is given, or what has to be asked first.
        state: What it has put into the session's state.
        artifacts: The artifacts it has saved, with their versions.
    """

    answer: Answer | Held
    state: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, int] = field(default_factory=dict)


class Journal:
    """The calls of one stretch of code.

    Args:
        kept: Where they are kept.
        left: Calls that an earlier stretch has made beside the one it was suspended at, and that
            the code has not come to yet.
    """

    def __init__(self, kept: journals.Journal, left: list[dict[str, Any]]) -> None:
        self._kept = kept
        self._earlier = [(-1, one) for one in left]
        self._read = False
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Read what an earlier worker has called.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        async with self._opening:
            if not self._read:
                self._earlier += enumerate(await self._kept.read())
                self._read = True

    def has(self, call: Call) -> bool:
        """Say whether an earlier worker has made this call, or begun to."""
        return self._place(call) is not None

    def left(self) -> list[dict[str, Any]]:
        """Return the calls that the code has not come to yet."""
        return [one for _, one in self._earlier]

    async def once(self, call: Call, do: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Make a call, unless an earlier worker has made it.

        Raises:
            ToolInDoubt: The code goes another way than it went with the earlier worker.
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
                return Outcome(Held(call.name, call.shown, hint=_DOUBT, doubtful=True))
            if end is not None and "asked" not in end:
                return Outcome(end["answer"], end["state"], end["artifacts"])
        outcome = await do()
        entry = _entry(call, _end(outcome))
        if place < 0:
            await self._kept.add(entry)
        else:
            await self._kept.change(place, entry)
        return outcome

    def has_ended(self, call: Call) -> bool:
        """Say whether an earlier worker has made this call, and knew its result."""
        at = self._place(call)
        end = None if at is None else self._earlier[at][1]["end"]
        return end is not None and "asked" not in end

    def forget(self, call: Call) -> None:
        """Take a call that is not to be made out of what is still to come."""
        at = self._place(call)
        if at is not None:
            self._earlier.pop(at)

    def _place(self, call: Call) -> int | None:
        key = _key(call)
        return next(
            (
                at
                for at, (_, one) in enumerate(self._earlier)
                if (one["lane"], one["call"]) == (call.lane, key)
            ),
            None,
        )

    def _require_same_way(self, call: Call) -> None:
        beside = [one for _, one in self._earlier if one["lane"] == call.lane]
        if beside and not call.sure:
            made = ", ".join(f"{one['name']}()" for one in beside)
            raise ToolInDoubt(
                f"Code was run again because its worker died, and it went another way: it calls "
                f"{call.name}() now, and has called {made} before, which is not undone. Nothing "
                "more was called. Let the code make the same calls each time it is given the same "
                "answers: no times or random numbers in them."
            )


def of_call(context: Context, stops: int, left: list[dict[str, Any]]) -> Journal | None:
    """Return the journal of a stretch of a tool's code, None where no worker of ours runs it."""
    kept = _journals(context)
    found = kept.of_call(context, context.function_call_id or "", stops) if kept else None
    return None if found is None else Journal(found, left)


def of_callback(context: Context, kind: str, file: str) -> Journal | None:
    """Return the journal of a run of a callback, None where no worker of ours runs it.

    A callback of a tool belongs to the call, one of a model to all that its agent has said before,
    and one of an agent to the turn: with each answer that a run is resumed with, ADK runs it anew.
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
    branch = context._invocation_context.branch or ""  # noqa: SLF001 -- the branch is nowhere else
    found = kept.of_callback(context, kind, file, context.agent_name, branch, place)
    return None if found is None else Journal(found, [])


async def will_be_said_again(context: Context) -> bool:
    """Say whether the model is not asked, because a worker died in code that it has called.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    kept = _journals(context)
    return kept is not None and await kept.said_again(context) is not None


def has_guard(context: Context) -> bool:
    """Say whether a worker of ours runs this, whose guard hands snapshots to their code."""
    return _journals(context) is not None


async def frozen(context: Context, tool: str) -> Freeze | None:
    """Return what stops a tool that code calls, None where nothing does.

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
    invocation = context._invocation_context  # noqa: SLF001 -- the plugins are nowhere else
    plugins = invocation.plugin_manager.plugins
    return next((one for one in plugins if isinstance(one, GuardPlugin)), None)


def _key(call: Call) -> str:
    text = json.dumps([call.name, call.args], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _entry(call: Call, end: dict[str, Any] | None) -> dict[str, Any]:
    return {"lane": call.lane, "call": _key(call), "name": call.name, "end": end}


def _end(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome.answer, Held):
        # Its own code has asked, and will ask again.
        return {"asked": True}
    state = {key: value for key, value in outcome.state.items() if is_plain(value)}
    end = {"answer": outcome.answer, "state": state, "artifacts": outcome.artifacts}
    if len(json.dumps(end)) > _MOST_KEPT:
        return {"answer": dict(_NOT_KEPT), "state": {}, "artifacts": {}}
    return end
