"""Renders cards without sending them, for previews and for tests of tools and policies."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from signoff.channels.email.outbound.render import html, plain_text, render
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.slack.outbound import blocks
from signoff.core.approvals.approval import Approval
from signoff.core.cards.card import card
from signoff.core.directory.people import Directory

Json = dict[str, Any]

NO_TOKEN = "a" * 26
"""Stands in place of the token, which only sent mails have."""


def message(
    approval: Approval, directory: Directory, *, channel: str, now: datetime, link: str = ""
) -> Message:
    """Return the card of an approval for its first approver in a channel.

    Args:
        approval: The approval.
        directory: The people.
        channel: ``email`` or ``slack``. If nobody is asked there, the first approver gets it.
        now: The present (UTC).
        link: The page of the approval, "" for none.
    """
    by_it = [one for one in approval.asked if one.channel == channel]
    asked = next(iter(by_it or approval.asked), None)
    person = directory.get(asked.person) if asked is not None else None
    return Message(
        id=f"card:{approval.id}:{asked.key if asked else ''}",
        kind=Kind.CARD,
        card=card(approval, directory),
        person=asked.key if asked else "",
        name=person.shown if person else "",
        address=asked.address if asked else "nobody@example.com",
        at=now,
        zone=directory.zone_of(asked.person if asked else ""),
        token=NO_TOKEN,
        link=link,
    )


def slack(sent: Message, settings: EmailSettings) -> tuple[str, Json]:
    """Return the arguments of ``chat.postMessage``, as text and as JSON."""
    del settings
    text, shown = blocks.opening(sent)
    body = {
        "channel": sent.address,
        "text": text,
        "blocks": [block.to_dict() for block in shown],
        "metadata": blocks.metadata(sent),
        "unfurl_links": False,
        "unfurl_media": False,
    }
    return json.dumps(body, ensure_ascii=False, indent=2), body


def email(sent: Message, settings: EmailSettings) -> tuple[str, Json]:
    """Return the mail: as it is sent, and its parts as JSON."""
    mail = render(sent, settings)
    headers = {name: str(value) for name, value in mail.items()}
    parts = {"text": plain_text(sent, settings), "html": html(sent, settings)}
    return mail.as_string(), {"headers": headers, **parts}


def text(sent: Message, settings: EmailSettings) -> tuple[str, Json]:
    """Return the plain text of the mail."""
    shown = plain_text(sent, settings)
    return shown, {"text": shown}


FORMS: dict[str, Callable[[Message, EmailSettings], tuple[str, Json]]] = {
    "slack": slack,
    "email": email,
    "text": text,
}
"""The forms of a card, by name: each as text for people and as JSON."""
