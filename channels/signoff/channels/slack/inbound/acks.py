"""The acknowledgements to Slack, and the records of handled clicks and submissions."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any, Final

from slack_sdk.models.views import View

from signoff.broker.decisions import Refused
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.slack.inbound.payloads import SlackUser
from signoff.channels.slack.outbound.views import notice_view
from signoff.channels.words.outcomes import refusal_of
from signoff.core.directory.people import Directory, Person

Ack = dict[str, Any] | None
"""The acknowledgement to Slack: empty, or an action for the modal."""

STRANGER: Final = "Signoff does not know you."
ASK_OPERATOR: Final = "Ask your operator to add you, or your Slack id, to the directory."
"""The advice to a user who is not in the directory."""

LATER: Final = "This could not be recorded just now, and nothing was done. Send it again."
"""The error in a modal if the ledger cannot be reached."""

_REMEMBERED: Final = timedelta(hours=1)


def source_of(actor: SlackUser, nonce: str) -> str:
    """Return the id of a click or a submission: the user, and the time or the modal's id."""
    return hashlib.sha256(f"{actor.user}\0{nonce}".encode()).hexdigest()[:16]


def _handled_key(source: str) -> str:
    return f"slack:{source}"


async def was_handled(ledger: Ledger, source: str) -> bool:
    """Return whether a click or submission was handled before: an envelope can come twice."""
    return await ledger.raw(_handled_key(source)) is not None


def mark_handled(source: str) -> Change:
    """Return the change that records it as handled; a second commit is refused."""
    return Change().put_raw(_handled_key(source), "1", ttl=_REMEMBERED)


def replace_modal(view: View) -> Ack:
    """Return the acknowledgement that replaces the submitted modal with another one."""
    return {"response_action": "update", "view": view.to_dict()}


def refusal_modal(refused: Refused, person: Person | None, directory: Directory) -> Ack:
    """Return the acknowledgement that replaces a modal with the reason of its refusal."""
    words = refusal_of(refused, person, directory).words
    return replace_modal(notice_view(words.headline, words.text))
