"""The card: what a person is shown, before any channel gives it a form."""

from __future__ import annotations

import json
import unicodedata
from datetime import datetime

from pydantic import JsonValue

from signoff.core.approval import Approval
from signoff.core.model import Value
from signoff.core.payload import fields_of
from signoff.core.people import Directory

_MAX_SHOWN = 10_000
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks by their category, and nothing at all on the screen."""


class Row(Value):
    """One argument of the call: its name and its value as people read it."""

    name: str
    value: str


class Card(Value):
    """Everything that a card shows; each channel renders the same one.

    Attributes:
        approval: The id of the approval.
        title: One line: what the agent wants to do.
        app: The agent's folder.
        agent: The agent that called the tool.
        tool: The tool.
        rows: The arguments.
        hint: The tool's own words, "" where ADK only put its standard text.
        requester: Who asked.
        policy: The name of the policy.
        deadline: Until when (UTC), None when it stays open.
        digest: Of the tool and the arguments.
        fields: The payload template to fill, empty where there is none.
    """

    approval: str
    title: str
    app: str
    agent: str
    tool: str
    rows: tuple[Row, ...]
    hint: str
    requester: str
    policy: str
    deadline: datetime | None
    digest: str
    fields: tuple[Row, ...] = ()


def card(approval: Approval, directory: Directory) -> Card:
    """Return the card of an approval."""
    call, origin = approval.call, approval.origin
    requester = directory.find(origin.user)
    return Card(
        approval=approval.id,
        title=f"{one_line(origin.agent or origin.app)} asks to run {one_line(call.name)}",
        app=one_line(origin.app),
        agent=one_line(origin.agent),
        tool=one_line(call.name),
        rows=tuple(Row(name=one_line(name), value=shown(call.args[name])) for name in call.args),
        hint="" if _is_standard_hint(approval.hint) else shown(approval.hint),
        requester=one_line(requester.shown if requester else origin.user),
        policy=approval.terms.policy if approval.terms else "",
        deadline=approval.deadline,
        digest=approval.digest,
        fields=tuple(
            Row(name=one_line(name), value=shown(start))
            for name, start in fields_of(approval.template).items()
        ),
    )


def shown(value: JsonValue) -> str:
    """Write a value so that a person sees all of it that could matter.

    Characters that do not print or that change the direction of the text (a right-to-left override
    can make "gpj.exe" read "exe.jpg") are written as escapes. What is too long to show says so,
    with the number of characters left out; the digest covers all of it.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    safe = "".join(char if _prints(char) else _escape(char) for char in text[:_MAX_SHOWN])
    left = len(text) - _MAX_SHOWN
    return f"{safe} … and {left:,} more characters" if left > 0 else safe


def one_line(text: str) -> str:
    """Return `shown` text without line breaks, for titles, subjects and names."""
    return " ".join(shown(text).split())


def _prints(char: str) -> bool:
    return char in "\n\t" or not (char in _BLANK or unicodedata.category(char) in _UNSEEN)


def _escape(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _is_standard_hint(hint: str) -> bool:
    # What FunctionTool(require_confirmation=True) writes is for programmers: it would tell a
    # manager to "respond with a FunctionResponse".
    return "expected ToolConfirmation payload" in hint
