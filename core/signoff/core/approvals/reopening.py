"""Asks about a call again: its approval is in doubt, has expired or is void.

Each function opens a new approval, which is not routed yet and replaces the earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TypeAlias

from pydantic import JsonValue

from signoff.core.approvals.approval import Approval, Moved
from signoff.core.approvals.events import Event
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.parts import ToolCall
from signoff.core.base.errors import IllegalMove
from signoff.core.base.moments import moment_text

AskedAgain: TypeAlias = "tuple[Approval, Approval, tuple[Event, ...]]"
"""An approval that no longer counts, the one that replaces it, and the events of both."""


def ask_again(approval: Approval, *, now: datetime) -> Moved:
    """Open another approval for a call in doubt, which asks whether to run it again.

    Raises:
        IllegalMove: It is not in doubt.
    """
    if approval.handoff is not Handoff.IN_DOUBT:
        raise IllegalMove(f"Approval {approval.id} is not in doubt.")
    ran = "The worker died" if approval.program is None else "The program stopped"
    return _open(
        approval,
        {"again": approval.origin.again + 1},
        hint=f"{ran} while {approval.call.name} ran: it may or may not have happened. "
        "Look first. Run it again?",
        # The session keeps the values of the first answer, and the tool gets those.
        template=None,
        now=now,
    )


def expire(approval: Approval, *, now: datetime, valid_for: timedelta) -> AskedAgain:
    """Expire an approval that is too old to start its call, and ask about the call again.

    Raises:
        IllegalMove: The approval is still valid, or the call was started.
    """
    until = approval.good_until(valid_for)
    if until is None or now < until:
        raise IllegalMove(f"The yes to approval {approval.id} has not expired.")
    said = f"{approval.call.name}() was {approval.outcome()}, and that was good until "
    said += f"{moment_text(until, UTC)}. It could not be started by then"
    hint = f"{said}. Is it still wanted?"
    return _replace(approval, Handoff.EXPIRED, why=said, hint=hint, now=now)


def void(approval: Approval, *, why: str, now: datetime) -> AskedAgain:
    """Void a decision that is not proven, and ask about the call again.

    Raises:
        IllegalMove: The call was started.
    """
    hint = (
        f"The ledger says that this was {approval.state.value.replace('_', ' ')}, and nothing "
        f"proves it: {why}. Nothing was run. Is it wanted?"
    )
    return _replace(approval, Handoff.VOID, why=why, hint=hint, now=now)


def ask_about_change(
    approval: Approval,
    call: ToolCall,
    *,
    origin: Mapping[str, JsonValue],
    declared: str,
    why: str,
    now: datetime,
) -> AskedAgain:
    """Void the approval of a call that has changed since, and ask about the changed call.

    Args:
        approval: The approval.
        call: The call as it would run now.
        origin: The fields of its origin that have changed.
        declared: SHA-256 over the parameters that the tool declares now.
        why: What has changed, as a sentence.
        now: The present.

    Raises:
        IllegalMove: `HANDOFFS` has no step to void.
        NotCanonical: The arguments have no digest.
    """
    hint = f"This was {approval.outcome()}. {why} Nothing was run. Is it still wanted?"
    return _replace(
        approval,
        Handoff.VOID,
        why=why,
        hint=hint,
        now=now,
        origin=origin,
        call=call,
        declared=declared,
    )


def _replace(
    approval: Approval,
    handoff: Handoff,
    *,
    why: str,
    hint: str,
    now: datetime,
    origin: Mapping[str, JsonValue] = MappingProxyType({}),
    call: ToolCall | None = None,
    declared: str | None = None,
) -> AskedAgain:
    """End the handoff of an approval, and ask about its call, or about another one, again."""
    after, noted = approval.hand_on(handoff, now=now, why=why)
    question, opened = _open(
        approval,
        {**origin, "expired": approval.origin.expired + 1},
        hint=f"{hint} {approval.own_hint}",
        template=approval.template,
        now=now,
        call=call,
        declared=declared,
    )
    return after, question, (*noted, *opened)


def _open(
    approval: Approval,
    origin: Mapping[str, JsonValue],
    *,
    hint: str,
    template: JsonValue,
    now: datetime,
    call: ToolCall | None = None,
    declared: str | None = None,
) -> Moved:
    """Open an approval that replaces this one, with the same words of agent and requester."""
    program = approval.program
    if program is not None:
        program = program.not_started(now + (program.until - approval.opened_at))
    return Approval.open(
        approval.origin.model_copy(update=origin),
        call or approval.call,
        kind=approval.kind,
        hint=hint.rstrip(),
        said=approval.said,
        request=approval.request,
        hide=tuple(dict.fromkeys((*approval.hide, *approval.hides))),
        template=template,
        now=now,
        supersedes=approval.id,
        program=program,
        declared=approval.declared if declared is None else declared,
    )
