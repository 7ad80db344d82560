"""Checks by which tools say whether a call that is in doubt has happened."""

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
"""Seconds that a check may take."""

HAPPENED: Final = json.dumps(
    {
        "status": "done",
        "note": "The worker died before the result was kept. A check says that the call happened.",
    }
)
"""What the agent gets for a call that has happened."""


@dataclass(frozen=True, slots=True)
class CallInDoubt:
    """A call that a worker started, and that nobody saw finish.

    Attributes:
        tool: The tool.
        args: Its arguments, as it got them.
        app: The app.
        user: The requester.
        session: The session id.
        id: The id of the function call.
        unique: What the key follows from, where models use ids of calls again; "" for the id.
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
"""Says whether a call has happened; None where it cannot tell."""

checks: dict[tuple[str, str], Check] = {}
"""The checks that `verify` has registered, by app and tool."""


def verify(tool: str, check: Check, *, app: str = "") -> None:
    """Have a check asked about calls of a tool that are in doubt, before a person is.

    Call it in the module of the agent. If the check says True, the call counts as finished; if it
    says False, the call runs again on the same approval. If it says None, raises, or takes longer
    than 30 seconds, the policy decides as it does without a check.

    Args:
        tool: The name of the tool.
        check: A function, which gets a thread of its own, or a coroutine function.
        app: The app whose tool it is; "" for the tools of this name in all apps of the worker.
    """
    checks[app, tool] = check


async def verified(approvals: Iterable[Approval]) -> dict[str, bool]:
    """Return what the checks say about the calls of approvals that are in doubt, by approval.

    Those about which nothing is known are left out.
    """
    found: dict[str, bool] = {}
    for one in approvals:
        check = checks.get((one.origin.app, one.call.name)) or checks.get(("", one.call.name))
        if check is None or one.handoff is not Handoff.STARTED or not _is_tool_call(one):
            continue
        says = await _asked(check, one)
        if isinstance(says, bool):
            found[one.id] = says
            log.warning("tool.verified", approval=one.id, tool=one.call.name, happened=says)
    return found


def key_of(app: str, user: str, session: str, call_id: str) -> str:
    """Return the idempotency key of a function call: 32 letters and digits."""
    text = f"{app}\0{user}\0{session}\0{call_id}"
    return base64.b32encode(hashlib.sha256(text.encode()).digest()[:20]).decode().lower()


def _is_tool_call(approval: Approval) -> bool:
    """Whether it is about the call of a tool, and not about a node or a call inside of code."""
    return approval.call.id != approval.origin.confirmation and not approval.origin.made


async def _asked(check: Check, approval: Approval) -> object:
    origin, call = approval.origin, approval.call
    # Agents of other frameworks than ADK are asked about under ids that are unique in a session.
    again = origin.confirmation.startswith(f"{origin.invocation}/")
    doubtful = CallInDoubt(
        call.name,
        call.args,
        origin.app,
        origin.user,
        origin.session,
        call.id,
        origin.confirmation if again else "",
    )
    try:
        async with asyncio.timeout(WITHIN):
            says: object = await asyncio.to_thread(check, doubtful)
            return await says if inspect.isawaitable(says) else says
    except Exception as error:  # noqa: BLE001 -- a check may raise anything
        log.warning("tool.not_verified", approval=approval.id, tool=call.name, error=repr(error))
        return None
