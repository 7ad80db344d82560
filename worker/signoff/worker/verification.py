"""Checks that find out whether a call in doubt has happened."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff

log = structlog.get_logger(__name__)

WITHIN: Final = 30.0
"""The maximum duration of a check, in seconds."""

HAPPENED: Final = json.dumps(
    {
        "status": "done",
        "note": "The worker died before the result was kept. A check says that the call happened.",
    }
)
"""The result that the agent gets for a call that has happened."""


@dataclass(frozen=True, slots=True)
class CallInDoubt:
    """A call that a worker started, and that nobody saw finish.

    Attributes:
        tool: The tool.
        args: The arguments that it got.
        app: The app.
        user: The requester.
        session: The session id.
        id: The id of the function call.
        unique: The id from which the key is derived, if models reuse ids of calls; "" for `id`.
    """

    tool: str
    args: Mapping[str, Any]
    app: str
    user: str
    session: str
    id: str
    unique: str = ""

    @property
    def idempotency_key(self) -> str:
        """The key that the `idempotency_key` of the agent's framework gave the call."""
        return key_of(self.app, self.user, self.session, self.unique or self.id)


Check = Callable[[CallInDoubt], bool | Awaitable[bool | None] | None]
"""Returns whether a call has happened; None if it cannot tell."""

checks: dict[tuple[str, str], Check] = {}
"""The checks that `verify` has registered, by app and tool."""


def verify(tool: str, check: Check, *, app: str = "") -> None:
    """Register a check for calls of a tool that are in doubt; it is asked before a person.

    Call this in the module of the agent. If the check returns True, the call counts as finished; if
    it returns False, the call runs again on the same approval. If it returns None, raises, or takes
    longer than 30 seconds, the policy decides as it does without a check.

    Args:
        tool: The name of the tool.
        check: A function, which runs in a thread of its own, or a coroutine function.
        app: The app of the tool; "" for the tools of this name in all apps of the worker.
    """
    checks[app, tool] = check


async def verified(approvals: Iterable[Approval]) -> dict[str, bool]:
    """Return whether the calls in doubt have happened, by approval; unknown ones are left out."""
    found: dict[str, bool] = {}
    for one in approvals:
        check = checks.get((one.origin.app, one.call.name)) or checks.get(("", one.call.name))
        if check is None or one.handoff is not Handoff.STARTED or not _is_tool_call(one):
            continue
        happened = await _result_of(check, one)
        if isinstance(happened, bool):
            found[one.id] = happened
            log.warning("tool.verified", approval=one.id, tool=one.call.name, happened=happened)
    return found


def key_of(app: str, user: str, session: str, call_id: str) -> str:
    """Return the idempotency key of a function call: 32 letters and digits."""
    text = f"{app}\0{user}\0{session}\0{call_id}"
    return base64.b32encode(hashlib.sha256(text.encode()).digest()[:20]).decode().lower()


def _is_tool_call(approval: Approval) -> bool:
    """Return whether it is about a tool call, and not about a node or a call inside of code."""
    return approval.call.id != approval.origin.confirmation and not approval.origin.made


async def _result_of(check: Check, approval: Approval) -> object:
    origin, call = approval.origin, approval.call
    # The approvals of other frameworks than ADK have ids that are unique in a session.
    is_unique = origin.confirmation.startswith(f"{origin.invocation}/")
    doubtful = CallInDoubt(
        call.name,
        call.args,
        origin.app,
        origin.user,
        origin.session,
        call.id,
        origin.confirmation if is_unique else "",
    )
    try:
        async with asyncio.timeout(WITHIN):
            result: object = await asyncio.to_thread(check, doubtful)
            return await result if inspect.isawaitable(result) else result
    except Exception as error:  # noqa: BLE001 -- a check may raise anything
        log.warning("tool.not_verified", approval=approval.id, tool=call.name, error=repr(error))
        return None
