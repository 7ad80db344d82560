"""Slack's documented limits on blocks, and a check for them.

https://docs.slack.dev/reference/block-kit: lengths in UTF-16 units, the stricter reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]

MESSAGE, MODAL = 50, 100

MOST_TEXT = 12_000
"""The most characters of a message, with & < > as entities; above it is ``msg_blocks_too_long``.

Slack documents no number and no way of counting. It refused 13,300 characters of a markdown block,
and 11,341 of 45 blocks with 10,400 of `text`; it accepted 9,597 of 50 blocks with 6,463 of `text`.
https://github.com/slackapi/bolt-js/issues/2509, https://github.com/slackapi/bolt-js/issues/2867
"""

MOST_OF_MODAL = 250_000
"""The most bytes of a modal."""


def faults_of(blocks: Sequence[Json], *, modal: bool = False) -> list[str]:
    """Return the parts of these blocks that Slack would refuse."""
    found = [f"{len(blocks)} blocks"] if len(blocks) > (MODAL if modal else MESSAGE) else []
    if modal and (size := len(json.dumps(blocks))) > MOST_OF_MODAL:
        found.append(f"{size} bytes of a modal")
    if not modal and (length := sum(map(_as_entities, _texts(blocks)))) > MOST_TEXT:
        found.append(f"msg_blocks_too_long: {length} characters")
    ids = [block["block_id"] for block in blocks if block.get("block_id")]
    if len(set(ids)) < len(ids):
        found.append("block_id twice")
    return found + [fault for block in blocks for fault in _block(block)]


def _texts(part: Any) -> Iterator[str]:
    """Yield every text of some blocks."""
    if isinstance(part, list | tuple):
        for one in part:
            yield from _texts(one)
    elif isinstance(part, dict):
        if part.get("type") in {"mrkdwn", "plain_text"}:
            yield part["text"]
        yield from _texts(list(part.values()))


def _as_entities(text: str) -> int:
    return units(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def faults_of_ack(ack: Json | None, submitted: Json) -> list[str]:
    """Return the parts of an acknowledgement of a modal that Slack would refuse.

    Slack then shows "We had some trouble connecting" in the modal, and nothing else.
    https://docs.slack.dev/surfaces/modals#displaying_errors
    """
    match ack:
        case {"response_action": "errors", "errors": {**errors}}:
            inputs = {one.get("block_id") for one in submitted["blocks"] if one["type"] == "input"}
            found = [f"no input {block}" for block in errors if block not in inputs]
            return found if errors else ["no errors"]
        case {"response_action": "update", "view": {"blocks": list(blocks)}}:
            return faults_of(blocks, modal=True)
    return [] if ack is None else [f"unknown acknowledgement {ack}"]


def _block(block: Json) -> Iterator[str]:
    if len(block.get("block_id", "")) > 255:
        yield "block_id too long"
    check = _CHECKS.get(block["type"])
    if check is None:
        yield f"block {block['type']} is not one that we use"
    else:
        yield from check(block)


def _header(block: Json) -> Iterator[str]:
    yield from _text(block["text"], 150, "header", plain=True)


def _section(block: Json) -> Iterator[str]:
    fields = block.get("fields") or ()
    if not block.get("text") and not fields:
        yield "section of nothing"
    if block.get("text"):
        yield from _text(block["text"], 3000, "section")
    if block.get("accessory"):
        yield from _button(block["accessory"])
    if len(fields) > 10:
        yield "over 10 fields"
    for one in fields:
        yield from _text(one, 2000, "field")


def _context(block: Json) -> Iterator[str]:
    if not 1 <= len(block["elements"]) <= 10:
        yield "context of 1 to 10 elements"
    for one in block["elements"]:
        yield from _text(one, 3000, "context")


def _actions(block: Json) -> Iterator[str]:
    if not 1 <= len(block["elements"]) <= 25:
        yield "actions of 1 to 25 elements"
    for one in block["elements"]:
        yield from _button(one)


def _input_block(block: Json) -> Iterator[str]:
    yield from _text(block["label"], 2000, "label", plain=True)
    if block.get("hint"):
        yield from _text(block["hint"], 2000, "hint", plain=True)
    yield from _input(block["element"])


def _divider(_block: Json) -> Iterator[str]:
    yield from ()


def _button(element: Json) -> Iterator[str]:
    if element["type"] == "overflow":
        if not 1 <= len(element["options"]) <= 5:
            yield "menu of 1 to 5 options"
        for option in element["options"]:
            yield from _text(option["text"], 75, "option", plain=True)
            if not 1 <= units(option["value"]) <= 150:
                yield "option's value"
        return
    yield from _text(element["text"], 75, "button", plain=True)
    if len(element.get("action_id", "")) > 255 or len(element.get("value", "")) > 2000:
        yield "button's ids too long"
    if confirm := element.get("confirm"):
        for part, most in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
            yield from _text(confirm[part], most, f"confirm {part}")


def _input(element: Json) -> Iterator[str]:
    options = element.get("options")
    if options is not None:
        most = 100 if element["type"] == "static_select" else 10
        if not 1 <= len(options) <= most:
            yield "number of options"
        for option in options:
            yield from _text(option["text"], 75, "option")
            if not 1 <= units(option["value"]) <= 150:
                yield "option's value"
        chosen = element.get("initial_option")
        if chosen is not None and chosen not in options:
            yield "initial option is none of the options"
    if units(element.get("initial_value") or "") > 3000:
        yield "initial value"
    if not 1 <= int(element.get("max_length") or 3000) <= 3000:
        yield "max_length"


def _text(text: Json, most: int, where: str, *, plain: bool = False) -> Iterator[str]:
    if not 1 <= units(text["text"]) <= most:
        yield f"{where} of {units(text['text'])} characters"
    if plain and text["type"] != "plain_text":
        yield f"{where} is not plain text"
    if text["type"] == "mrkdwn":
        rest = text["text"]
        for ours in ("<!date^", "<!subteam^"):
            rest = rest.replace(ours, "")
        if "<" in rest or "<@" in text["text"] or "<!channel" in text["text"]:
            yield f"{where} has markup of others"


def units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


_CHECKS = {
    "header": _header,
    "section": _section,
    "context": _context,
    "actions": _actions,
    "input": _input_block,
    "divider": _divider,
}
