"""What Slack is answered, and how it is known that something of it was taken before."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any, Final

from slack_sdk.models.views import View

from signoff.broker.decisions import Refused
from signoff.broker.ledger.change import Change
from signoff.channels.slack.inbound.payloads import Actor
from signoff.channels.slack.outbound.views import notice_view
from signoff.channels.words.outcomes import not_taken
from signoff.core.directory.people import Directory, Person

Ack = dict[str, Any] | None
"""What Slack is answered: nothing, or what a modal shall do."""

STRANGER: Final = "You are not among the people of Signoff here."
ASK_OPERATOR: Final = "Ask your operator to add you, or your Slack id, to the directory."
"""What somebody is told whom the directory does not know."""

LATER: Final = "This could not be recorded just now, and nothing was done. Send it again."
"""What stands at a modal that met a ledger which is away."""

_REMEMBERED: Final = timedelta(hours=1)


def source_of(actor: Actor, nonce: str) -> str:
    """Return what names one click or submission: its user, and its time or its modal's id."""
    return hashlib.sha256(f"{actor.user}\0{nonce}".encode()).hexdigest()[:16]


def guard(source: str) -> str:
    """Return the key under which it is known that it was taken."""
    return f"slack:{source}"


def guarded(source: str) -> Change:
    """Return the change that notes that it was taken; it is refused the second time."""
    return Change().put_raw(guard(source), "1", ttl=_REMEMBERED)


def instead(view: View) -> Ack:
    """Return the answer that puts another modal in the place of the one that was submitted."""
    return {"response_action": "update", "view": view.to_dict()}


def told_instead(refused: Refused, person: Person | None, directory: Directory) -> Ack:
    """Return the answer that says, in the place of a modal, why it was refused."""
    words = not_taken(refused, person, directory).words
    return instead(notice_view(words.headline, words.text))
