"""What a tool has told ADK to do beside its result, such as a change of the state or a transfer.

ADK writes them to the session in the event with the result. If a worker dies between the end of the
tool and that event, the next worker does not run the tool again, but has to do what it has told.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import structlog
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.adk.tools.tool_context import ToolContext

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.suspended import arguments

log = structlog.get_logger(__name__)

_ACTIONS: Final = "actions"
_NOTED: Final = timedelta(days=1)
"""Needed only until the turn ends: then the session has them."""


def keep_actions(change: Change, approval: str, actions: EventActions) -> None:
    """Store the actions of a tool that has run on an approval, if there are any.

    ADK stores no temporary state, which may contain secrets, so it is not stored here either.
    """
    if told := _lasting(actions, approval):
        arguments.add(change, [approval, _ACTIONS], told)


async def keep_changes(ledger: Ledger, context: ToolContext) -> None:
    """Store what a tool has changed before it asked: ADK writes the question first.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    made = context.actions
    changes = EventActions(state_delta=made.state_delta, artifact_delta=made.artifact_delta)
    call_id = context.function_call_id or ""
    if told := _lasting(changes, call_id):
        await arguments.keep(ledger, _where(context.session, call_id), told, kept=_NOTED)


async def kept_changes(ledger: Ledger, session: Session, call_id: str) -> EventActions:
    """Return what the tool of a call has changed before it asked.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    told = await arguments.fetch(ledger, _where(session, call_id)) or {}
    return EventActions.model_validate(_set_fields(told))


async def kept_actions(ledger: Ledger, approval: str) -> EventActions:
    """Return the actions of a tool that has run on an approval.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    told = await arguments.fetch(ledger, [approval, _ACTIONS]) or {}
    return EventActions.model_validate(_set_fields(told))


def take_over(actions: EventActions, context: ToolContext) -> None:
    """Do in the context of a call what its tool has told ADK before."""
    context.state.update(actions.state_delta)
    for name in actions.model_fields_set - {"state_delta"}:
        setattr(context.actions, name, getattr(actions, name))


def _lasting(actions: EventActions, of: str) -> dict[str, Any]:
    """Return the fields of actions that say something, without temporary state; {} if unwritable.

    Args:
        actions: The actions.
        of: The id of the approval or the call, for the log.
    """
    state = actions.state_delta
    lasting = {key: one for key, one in state.items() if not key.startswith(State.TEMP_PREFIX)}
    try:
        kept = actions.model_copy(update={"state_delta": lasting})
        return _set_fields(kept.model_dump(mode="json"))
    except Exception:
        log.warning("tool.actions_not_kept", of=of, exc_info=True)
        return {}


def _where(session: Session, call_id: str) -> list[str]:
    return [session.app_name, session.user_id, session.id, call_id, _ACTIONS]


def _set_fields(actions: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that say something, and that this version of ADK knows."""
    return {name: one for name, one in actions.items() if one and name in EventActions.model_fields}
