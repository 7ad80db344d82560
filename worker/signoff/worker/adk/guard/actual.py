"""The call that would run, behind a request that carries another one.

ADK's request has the call as the model made it. A callback may have changed its arguments before
the tool got them, and the call may carry code that has stopped at a call inside of it. The ledger
and a seal say so; what a request says of itself may have been written by a tool, and so by a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.suspended import arguments, snapshots
from signoff.core.approvals.parts import Kind
from signoff.core.payloads.digest import digest
from signoff.worker.adk.guard.declared import declared_by
from signoff.worker.adk.history import Confirmation, Invocation, original_call
from signoff.worker.adk.questions import NODE, Request
from signoff.worker.ces.seal import suspended_at
from signoff.worker.suspended import Suspended, claimed

Asked = TypeVar("Asked", Confirmation, Request)


_DECLARED: Final = "declared"
_NOTED: Final = timedelta(days=1)
"""The approval has it once it is opened, which is when the turn has ended."""


async def note_call(
    ledger: Ledger, tool: BaseTool, args: Mapping[str, Any], context: ToolContext
) -> None:
    """Note what a tool declares, and what it got, where that is not what the model gave.

    Raises:
        NotCanonical: They have no digest, so nobody could be shown them.
        LedgerUnavailable: Redis cannot be reached.
    """
    call = original_call(context.session.events, context.function_call_id or "")
    if call is None:
        # A node asks with the arguments that it got.
        where = _where(context.session, f"{NODE}{context.node_path}")
        await _note_declared(ledger, where, tool)
        return
    given, got = digest(tool.name, call.args or {}), digest(tool.name, dict(args))
    where = _where(context.session, call.id or "")
    await arguments.keep(ledger, where, None if got == given else dict(args))
    await _note_declared(ledger, where, tool)


async def _note_declared(ledger: Ledger, where: Sequence[str], tool: BaseTool) -> None:
    declared = declared_by(tool)
    noted = {_DECLARED: declared} if declared else None
    await arguments.keep(ledger, [*where, _DECLARED], noted, kept=_NOTED)


async def as_they_are(ledger: Ledger, session: Session, standing: Invocation) -> Invocation:
    """Return where an invocation stands, with the calls that would run.

    Raises:
        NotCanonical: The arguments of a call have no digest.
        LedgerUnavailable: Redis cannot be reached.
    """
    return replace(
        standing,
        waiting=tuple([await _as_it_is(ledger, session, one) for one in standing.waiting]),
        requests=tuple([await _as_it_is(ledger, session, one) for one in standing.requests]),
    )


async def _as_it_is(ledger: Ledger, session: Session, asked: Asked) -> Asked:
    if asked.kind is Kind.CONFIRMATION:
        where = [*_where(session, asked.call_id), _DECLARED]
        noted = await arguments.fetch(ledger, where) or {}
        asked = replace(asked, declared=str(noted.get(_DECLARED) or ""))
    if isinstance(asked, Confirmation):
        sealed = await _sealed(ledger, asked.payload)
        if code := suspended_at(sealed, _where(session, asked.call_id)):
            return _about_code(asked, code)
    elif asked.kind is not Kind.LONG_RUNNING:
        return asked
    got = await arguments.fetch(ledger, _where(session, asked.call_id))
    if got is None:
        return asked
    return replace(asked, args=got, made=digest(asked.tool, asked.args))


def about_code(asked: Confirmation, where: Sequence[str]) -> Confirmation:
    """Return a request with the call that code is suspended at, where the request has its seal.

    So it is of agents that run where no guard of ours is.
    """
    code = claimed(asked.payload)
    found = suspended_at(code.sealed, [*where, asked.call_id]) if code is not None else None
    return asked if found is None else _about_code(asked, found)


def _about_code(asked: Confirmation, code: Suspended) -> Confirmation:
    return replace(
        asked,
        tool=code.tool,
        args=code.args,
        payload=None,
        made=digest(asked.tool, asked.args),
        doubtful=code.doubtful,
    )


async def carrying(ledger: Ledger, session: Session, invocation: str) -> set[str]:
    """Return the ids of the calls of an invocation that carry code which has stopped.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    latest = {
        call_id: ask.payload
        for event in session.events
        if event.invocation_id == invocation
        for call_id, ask in (event.actions.requested_tool_confirmations or {}).items()
    }
    return {
        call_id
        for call_id, payload in latest.items()
        if suspended_at(await _sealed(ledger, payload), _where(session, call_id))
    }


async def _sealed(ledger: Ledger, payload: object) -> str:
    code = claimed(payload)
    if code is None:
        return ""
    return await snapshots.fetch(ledger, code.ref) if code.ref else code.sealed


def _where(session: Session, call_id: str) -> list[str]:
    return [session.app_name, session.user_id, session.id, call_id]
