"""Reads items of the last release, and makes items readable for it; the next release deletes this.

Its items have no field `work`: the kind of work follows from the stage and from the other fields.
During a rolling upgrade, each release works on items of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from signoff.broker import stages

_MARKS: Final = frozenset(
    ("edit", "end", "fallback", "kind", "moved", "remind", "said", "stuck", "unmanned", "why")
)
"""Fields that only the last release reads."""


def for_last_release(fields: Mapping[str, Any]) -> dict[str, Any]:  # noqa: PLR0911, PLR0912 -- one for each kind
    """Return the fields by which the last release recognises the work of an item."""
    # Patterns of mappings would take ten times as many instructions.
    match fields["work"]:
        case "approve_edit":
            return {"edit": True}
        case "ask_others" | "ask_elsewhere":
            return {"fallback": True}
        case "staff_stage":
            return {"unmanned": True}
        case "rescue_poisoned":
            return {"stuck": fields["problem"]}
        case "remind":
            return {"remind": fields["nth"]}
        case "tell_move":
            return {"moved": fields["move"], "why": fields["reason"]}
        case "send_card":
            return {"kind": "card"}
        case "update_card":
            return {"kind": "update"}
        case "close_card" | "report_failure":
            return {"kind": "outcome"}
        case "close_level":
            return {"kind": "outcome", "moved": fields["turn"]}
        case "report_result":
            return {"kind": "outcome", "end": True, "said": fields["remarks"]}
        case "send_reminder" | "send_notice":
            return {"kind": "notice"}
        case "ask_requester":
            return {"kind": "question"}
    return {}


def known_now(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item of this release, without those for the last one."""
    return {name: value for name, value in body.items() if name not in _MARKS}


def of_last_release(  # noqa: PLR0911 -- one for each stage
    stage: str, item_id: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Convert an item of the last release.

    Args:
        stage: The stage whose outbox has the item.
        item_id: The id of the item.
        body: The stored form.

    Returns:
        The fields of a model in `signoff.broker.work`. If the item is invalid, no model accepts
        them.
    """
    head, _, name = stage.partition(".")
    match head:
        case stages.ROUTE:
            return _routing(item_id, body)
        case stages.DELIVER:
            return _delivery(item_id, {"channel": name, **body})
        case stages.INTAKE:
            return {"work": "read_mail", **body}
        case stages.SIGN_IN:
            return {"work": "mail_link", "request": item_id.removeprefix("link:"), **body}
        case stages.WEBHOOK:
            return {"work": "post_webhook", "hook": name, **body}
        case stages.RUN:
            return {"work": "start_run", "app": name, **body}
        case stages.RESUME:
            return {"work": "resume_run", "app": name, **body}
    return dict(body)


def _routing(item_id: str, body: Mapping[str, Any]) -> dict[str, Any]:  # noqa: PLR0911 -- one for each kind
    """Convert an item of `route`; the first of these fields that it has names the work."""
    last = item_id.rpartition(":")[2]
    fields, marks = _split(body, "moved", "stuck", "unmanned", "fallback", "remind", "edit")
    match next(iter(marks), "turn" if "turn" in body else ""):
        case "moved":
            fields |= {"work": "tell_move", "move": marks["moved"], "version": last}
            return _renamed(fields, why="reason")
        case "stuck":
            return {**fields, "work": "rescue_poisoned", "problem": marks["stuck"], "tries": last}
        case "unmanned":
            return {**fields, "work": "staff_stage", "turn": last}
        case "fallback":
            return {**fields, "work": "ask_others"}
        case "remind":
            return {**fields, "work": "remind", "nth": marks["remind"]}
        case "edit":
            return {**fields, "work": "approve_edit"}
        case "turn":
            return {**fields, "work": "ask_level", "votes": last}
    return {**fields, "work": "route_approval"}


def _delivery(item_id: str, body: Mapping[str, Any]) -> dict[str, Any]:  # noqa: PLR0911 -- one for each kind
    """Convert an item of `deliver`; its kind and its other fields name the work."""
    fields, marks = _split(body, "kind", "moved", "problem", "end")
    last = item_id.rpartition(":")[2]
    its_own = f"{body.get('approval')}:{body.get('person')}"
    match marks:
        case {"kind": "card"}:
            return {**fields, "work": "send_card"}
        case {"kind": "update"}:
            return {**fields, "work": "update_card", "version": last}
        case {"kind": "outcome", "moved": level_key}:
            fields |= {"work": "close_level", "turn": level_key}
            return fields | _corrected(item_id, "moved:", f"{its_own}:{level_key}")
        case {"kind": "outcome", "problem": problem}:
            return {**fields, "work": "report_failure", "problem": problem}
        case {"kind": "outcome", "end": True}:
            return {**_renamed(fields, said="remarks"), "work": "report_result"}
        case {"kind": "outcome"}:
            return {**fields, "work": "close_card"} | _corrected(item_id, "outcome:", its_own)
        case {"kind": "notice"} if item_id.startswith("remind:"):
            level_key = item_id.removeprefix(f"remind:{its_own}:").rpartition(":")[0]
            return {**fields, "work": "send_reminder", "turn": level_key, "nth": last}
        case {"kind": "notice" | "question" as kind}:
            work = "send_notice" if kind == "notice" else "ask_requester"
            return {**fields, "work": work, "cause": item_id.removeprefix("notice:")}
    return dict(body)


def _corrected(item_id: str, start: str, its_own: str) -> dict[str, str]:
    cause = item_id.removeprefix(start)
    return {} if cause == its_own else {"corrects": cause}


def _split(body: Mapping[str, Any], *marks: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a body without some fields, and these fields in the order of `marks`."""
    rest = {name: value for name, value in body.items() if name not in marks}
    return rest, {name: body[name] for name in marks if name in body}


def _renamed(fields: dict[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in fields.items()}
