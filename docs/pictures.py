"""Take the pictures of cards and mails that the documentation shows.

What is drawn are the very blocks and pages that are sent. Run it with ``python docs/pictures.py``
where there is a Chromium; it writes docs/images/slack-*.png and mail-*.png.
"""
# ruff: noqa: INP001 -- a script, not a package

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any, Final

from signoff.channels.email.outbound.render import html
from signoff.channels.email.settings import EmailSettings
from signoff.channels.form_fields import fields
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.preview import message
from signoff.channels.samples import MARA, PEOPLE, samples
from signoff.channels.slack.outbound import blocks, views
from signoff.channels.slack.references import Reference
from signoff.channels.words import phrases
from signoff.core.approvals.approval import Approval
from signoff.core.cards.card import card
from signoff.core.payloads.digest import short_digest

Json = Mapping[str, Any]

IMAGES: Final = Path(__file__).parent / "images"
NOW: Final = datetime(2026, 11, 21, 9, 41, tzinfo=UTC)

_STYLE: Final = """
:root { --paper: #fff; --ink: #1d1c1d; --soft: #616061; --line: #d5d5d6; --field: #fff;
  --chip: #eaeaeb; --code: #c01343 }
:root.dark { --paper: #1a1d21; --ink: #d1d2d3; --soft: #9a9b9d; --line: #4a4d51; --field: #222529;
  --chip: #35373b; --code: #e8912d }
* { box-sizing: border-box; margin: 0 }
body { background: var(--paper); color: var(--ink); font: 15px/1.47 Lato, "Liberation Sans",
  Arial, sans-serif; padding: 18px 20px }
.message { display: flex; gap: 10px; max-width: 640px }
.face { flex: none; width: 36px; height: 36px; border-radius: 6px; background: #1f3a5f;
  color: #fff; font: 700 21px/36px Georgia, "Liberation Serif", serif; text-align: center }
.blocks { flex: 1; min-width: 0 }
.from b { font-weight: 800 } .from i { background: var(--chip); border-radius: 3px; color:
  var(--soft); font: 700 10px/1 Arial; margin: 0 6px 0 5px; padding: 2px 3px } .from small {
  color: var(--soft); font-size: 12px }
h2 { font-size: 18px; line-height: 1.35; margin: 6px 0 8px; overflow-wrap: anywhere }
.section { margin: 0 0 10px; white-space: pre-wrap; overflow-wrap: anywhere }
.fields { display: grid; grid-template-columns: 1fr 1fr; gap: 4px 16px; margin: 0 0 10px }
.fields > div { white-space: pre-wrap; overflow-wrap: anywhere }
.context { color: var(--soft); font-size: 12.5px; margin: 2px 0 4px; overflow-wrap: anywhere }
.actions { display: flex; flex-wrap: wrap; gap: 8px; margin: 6px 0 8px }
.button { border: 1px solid var(--line); border-radius: 4px; font-size: 13px; font-weight: 700;
  line-height: 28px; padding: 0 12px }
.primary { background: #007a5a; border-color: #007a5a; color: #fff }
.danger { background: #e01e5a; border-color: #e01e5a; color: #fff }
hr { border: 0; border-top: 1px solid var(--line); margin: 10px 0 }
code { background: var(--chip); border-radius: 3px; color: var(--code); font: 11.5px
  "Liberation Mono", monospace; padding: 1px 3px }
.modal { border: 1px solid var(--line); border-radius: 9px; max-width: 520px; padding: 18px 24px }
.modal header { align-items: center; display: flex; font-size: 20px; font-weight: 800;
  justify-content: space-between; margin-bottom: 14px }
.modal header span { color: var(--soft); font-weight: 400 }
.modal footer { display: flex; gap: 10px; justify-content: flex-end; margin-top: 18px }
.modal footer .button { font-size: 15px; line-height: 34px }
.input { margin: 14px 0 } .input > b { display: block; margin-bottom: 5px }
.input small { color: var(--soft); display: block; font-size: 12.5px; margin-top: 4px }
.box { background: var(--field); border: 1px solid #868686; border-radius: 4px; color: var(--soft);
  min-height: 36px; padding: 6px 11px; white-space: pre-wrap } .tall { min-height: 64px }
.radio::before { border: 1px solid #868686; border-radius: 50%; content: ""; display: inline-block;
  height: 13px; margin-right: 8px; vertical-align: -1px; width: 13px }
"""


def page(body: str, *, dark: bool = False) -> str:
    """Return a whole page, light or dark."""
    mood = ' class="dark"' if dark else ""
    return f'<!doctype html><html{mood}><meta charset="utf-8"><style>{_STYLE}</style>{body}</html>'


def message_html(shown: Sequence[Json], *, at: str = "9:41 AM") -> str:
    """Return a message of the app.

    Raises:
        ValueError: A block or an element is of a kind that is not known here.
    """
    head = f'<div class="from"><b>Signoff</b><i>APP</i><small>{escape(at)}</small></div>'
    body = f'<div class="blocks">{head}{"".join(map(_block, shown))}</div>'
    return f'<div class="message"><div class="face">S</div>{body}</div>'


def modal_html(view: Json) -> str:
    """Return a modal.

    Raises:
        ValueError: A block or an element is of a kind that is not known here.
    """
    submit = view.get("submit")
    buttons = f'<span class="button">{_text(view["close"])}</span>'
    if submit:
        buttons += f'<span class="button primary">{_text(submit)}</span>'
    head = f"<header>{_text(view['title'])}<span>✕</span></header>"
    body = "".join(map(_block, view["blocks"]))
    return f'<div class="modal">{head}{body}<footer>{buttons}</footer></div>'


def _block(block: Json) -> str:  # noqa: PLR0911 -- one for each kind of block
    match block["type"]:
        case "header":
            return f"<h2>{_text(block['text'])}</h2>"
        case "section" if "fields" in block:
            cells = "".join(f"<div>{_text(one)}</div>" for one in block["fields"])
            return f'<div class="fields">{cells}</div>'
        case "section":
            return f'<div class="section">{_text(block["text"])}</div>'
        case "context":
            return f'<div class="context">{" &nbsp; ".join(map(_text, block["elements"]))}</div>'
        case "actions":
            return f'<div class="actions">{"".join(map(_button, block["elements"]))}</div>'
        case "divider":
            return "<hr>"
        case "input":
            return _input(block)
    raise ValueError(f"There is no picture of a block {block['type']!r}.")


def _button(element: Json) -> str:
    if element["type"] == "overflow":
        return '<span class="button">···</span>'
    if element["type"] != "button":
        raise ValueError(f"There is no picture of an element {element['type']!r}.")
    return f'<span class="button {element.get("style", "")}">{_text(element["text"])}</span>'


def _input(block: Json) -> str:
    element, hint = block["element"], block.get("hint")
    label = _text(block["label"]) + (" (optional)" if block.get("optional") else "")
    below = f"<small>{_text(hint)}</small>" if hint else ""
    return f'<div class="input"><b>{label}</b>{_element(element)}{below}</div>'


def _element(element: Json) -> str:
    match element["type"]:
        case "plain_text_input" | "number_input":
            tall = " tall" if element.get("multiline") else ""
            return f'<div class="box{tall}">{escape(element.get("initial_value") or " ")}</div>'
        case "datepicker":
            return (
                f'<div class="box">🗓 {escape(element.get("initial_date") or "Select a date")}</div>'
            )
        case "static_select":
            chosen = element.get("initial_option")
            said = _text(chosen["text"]) if chosen else "Select an option"
            return f'<div class="box">{said} ▾</div>'
        case "radio_buttons":
            options = (
                f'<div class="radio">{_text(one["text"])}</div>' for one in element["options"]
            )
            return "".join(options)
    raise ValueError(f"There is no picture of an element {element['type']!r}.")


def _text(text: Json) -> str:
    """Return a text object; of mrkdwn as much as the cards use."""
    if text["type"] == "plain_text":
        return escape(text["text"])
    # Its entities are those of HTML, so that what is escaped stays so.
    said = re.sub(r"<!date\^(\d+)\^[^>]*>", _date, text["text"])
    said = re.sub(r"<!subteam\^([^>]*)>", r"@\1", said)
    said = said.replace("<", "&lt;").replace(">", "&gt;")
    said = re.sub(r"\*([^*\n]+)\*", r"<b>\1</b>", said)
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", said)


def _date(found: re.Match[str]) -> str:
    """Return a moment as a reader in Greenwich sees it on the day of the picture."""
    at = datetime.fromtimestamp(int(found[1]), UTC)
    day = "today" if at.date() == NOW.date() else f"{at:%b} {at.day}, {at.year}"
    return f"{day} at {at.hour % 12 or 12}:{at:%M %p}"


def pictures() -> dict[str, tuple[str, int, int]]:
    """Return the pictures of Slack by name: each as HTML, its width and its height in pixels."""
    found = samples(NOW)
    open_, days = found["confirmation"], found["payload"]
    link = "https://approvals.example.com/inbox/approvals/" + open_.id
    sent = message(open_, PEOPLE, channel="slack", now=NOW, link=link)
    shown = message_html(_dumped(blocks.opening(sent)[1]))
    about = Reference(approval=days.id, digest=short_digest(days.digest), to=MARA.id)
    modal = views.approve_view(card(days, PEOPLE), about, fields(days)).to_dict()
    ended = message_html(_dumped(blocks.outcome_blocks(_outcome(open_, sent))))
    return {
        "slack-card": (page(shown), 640, 258),
        "slack-card-dark": (page(shown, dark=True), 640, 258),
        "slack-modal": (page(modal_html(modal)), 560, 472),
        "slack-outcome": (page(ended), 640, 306),
    }


def _outcome(approval: Approval, sent: Message) -> Message:
    """Return what the card becomes when it is approved."""
    after, _ = approval.approve(MARA, PEOPLE, channel="slack", now=NOW + timedelta(minutes=2))
    words = phrases.outcome(after, "somebody else", PEOPLE)
    return replace(
        sent,
        kind=Kind.OUTCOME,
        headline=words.headline,
        text=words.text,
        good=True,
        link="",
        token="",
    )


def mail_pictures() -> dict[str, tuple[str, int, int]]:
    """Return the pictures of mails in the same way."""
    approval, settings = samples(NOW)["confirmation"], EmailSettings()
    sent = message(approval, PEOPLE, channel="email", now=NOW)
    shown = html(sent, settings)
    return {
        "mail-card": (shown, 680, 560),
        "mail-card-dark": (shown.replace("(prefers-color-scheme: dark)", "all"), 680, 560),
    }


def _dumped(made: Sequence[Any]) -> list[dict[str, Any]]:
    return [block.to_dict() for block in made]


def shoot(found: Mapping[str, tuple[str, int, int]], *, scale: float = 1) -> None:
    """Take pictures, and write each under its name.

    Raises:
        FileNotFoundError: There is no Chromium.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise FileNotFoundError("There is no chromium: apt-get install chromium.")
    with tempfile.TemporaryDirectory() as folder:
        for name, (drawn, width, height) in found.items():
            file = Path(folder) / f"{name}.html"
            file.write_text(drawn, encoding="utf-8")
            shot = [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--force-device-scale-factor={scale}",
                f"--user-data-dir={folder}/profile",
                f"--window-size={width},{height}",
                f"--screenshot={IMAGES / name}.png",
                file.as_uri(),
            ]
            subprocess.run(shot, check=True, capture_output=True)  # noqa: S603 -- our own pages


if __name__ == "__main__":
    shoot(pictures())
    shoot(mail_pictures(), scale=1.3)
