"""The call that would actually run, which may differ from the call in the request.

ADK's request contains the call as the model made it. A callback may have changed its arguments
before the tool got them, or the call may contain code that has stopped at an inner call. Only the
ledger and a seal prove this: a tool, and so a model, may have written the request itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from pydantic import JsonValue

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.suspended import arguments, snapshots
from signoff.core.approvals.parts import Kind
from signoff.core.payloads.digest import digest
from signoff.worker.adk.guard.declared import declared_by
from signoff.worker.adk.history import Confirmation, Invocation, original_call
from signoff.worker.adk.questions import NODE, SessionRequest
from signoff.worker.ces.seal import suspended_at
from signoff.worker.suspended import Suspended, claimed
from signoff.worker.turn_results import kept_result

Asked = TypeVar("Asked", Confirmation, SessionRequest)


_DECLARED: Final = "declared"
_RESULT: Final = "result"
_NOTED: Final = timedelta(days=1)
"""Needed only until the turn ends: then the approval is opened, and contains it."""


async def note_call(
    ledger: Ledger, tool: BaseTool, args: Mapping[str, Any], context: ToolContext
) -> None:
    """Record what a tool declares, and its arguments if they are not those of the model's call.

    Raises:
        NotCanonical: The arguments have no digest, so they cannot be shown to anybody.
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


async def note_result(ledger: Ledger, result: object, context: ToolContext) -> None:
    """Record that a long-running tool has run, and its result, before ADK writes it.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    where = [*_where(context.session, context.function_call_id or ""), _RESULT]
    await arguments.keep(ledger, where, {_RESULT: json.loads(kept_result(result))})


async def noted_results(
    ledger: Ledger, session: Session, calls: Iterable[str]
) -> dict[str, JsonValue]:
    """Return the results of long-running calls, by their ids; calls that have not run are missing.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = {}
    for call_id in calls:
        where = _where(session, call_id)
        noted = await arguments.fetch(ledger, [*where, _RESULT])
        # Workers of the last release only record what such a tool declares, once it has run.
        if noted is not None or await arguments.fetch(ledger, [*where, _DECLARED]):
            found[call_id] = (noted or {}).get(_RESULT)
    return found


async def as_they_are(ledger: Ledger, session: Session, invocation: Invocation) -> Invocation:
    """Return the state of an invocation, with the calls that would actually run.

    Raises:
        NotCanonical: The arguments of a call have no digest.
        LedgerUnavailable: Redis cannot be reached.
    """
    return replace(
        invocation,
        waiting=tuple([await _as_it_is(ledger, session, one) for one in invocation.waiting]),
        requests=tuple([await _as_it_is(ledger, session, one) for one in invocation.requests]),
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
    """Return a request with the call at which code is suspended, if the request has its seal.

    This is the case for agents that run without our guard.
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


async def _sealed(ledger: Ledger, payload: object) -> str:
    code = claimed(payload)
    if code is None:
        return ""
    return await snapshots.fetch(ledger, code.ref) if code.ref else code.sealed


def _where(session: Session, call_id: str) -> list[str]:
    return [session.app_name, session.user_id, session.id, call_id]
