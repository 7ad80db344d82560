"""Sample approvals, one of each kind, for previews of cards."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from signoff.core.approvals.approval import Approval, Asked, Kind, Origin, ToolCall
from signoff.core.base.durations import Span
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Risk, Terms

MARA: Final = Person(id="mara", name="Mara Lind", email="mara@example.com", slack="U012MARA")
RILEY: Final = Person(id="riley", name="Riley Voss", email="riley@example.com")
PEOPLE: Final = Directory([MARA, RILEY])

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "cost_center": {"enum": ["Sales", "Research"], "description": "Who pays"},
        "from": {"type": "string", "format": "date"},
        "comment": {"type": "string"},
    },
    "required": ["approved", "cost_center", "from"],
}


def samples(now: datetime) -> dict[str, Approval]:
    """Return a sample approval of each kind, by name, opened now (UTC); each asks Mara."""
    reimburse = ToolCall(
        id="fc-1", name="reimburse", args={"amount": 2500, "purpose": "Conference in Lisbon"}
    )
    time_off = ToolCall(id="fc-2", name="request_time_off", args={"days": 5, "from": "2026-12-21"})
    question = ToolCall(
        id="fc-3",
        name="adk_request_input",
        args={"message": "Which cost center pays for it?", "response_schema": _SCHEMA},
    )
    ticket = ToolCall(id="fc-4", name="open_ticket", args={"title": "Refund order 4711"})
    return {
        "confirmation": _asked(reimburse, now, risk=Risk.HIGH),
        "payload": _asked(
            time_off,
            now,
            hint="How many of the days do you approve?",
            template={"approved_days": 0},
        ),
        "input": _asked(question, now, kind=Kind.INPUT),
        "long_running": _asked(ticket, now, kind=Kind.LONG_RUNNING),
    }


def _asked(
    call: ToolCall,
    now: datetime,
    *,
    kind: Kind = Kind.CONFIRMATION,
    hint: str = "",
    template: dict[str, int] | None = None,
    risk: Risk = Risk.NORMAL,
) -> Approval:
    origin = Origin(
        run="run_sample",
        app="finance",
        agent="finance_assistant",
        user=RILEY.email,
        session="s_sample",
        invocation="e-sample",
        confirmation=call.id,
    )
    approval, _ = Approval.open(
        origin, call, hint=hint, template=dict(template) if template else None, now=now, kind=kind
    )
    terms = Terms(policy="sample", ask=(MARA.id,), within=Span(timedelta(hours=4)), risk=risk)
    asked = (Asked(person=MARA.id, channel="email", address=MARA.email),)
    return approval.ask(terms, asked, now=now)[0]
