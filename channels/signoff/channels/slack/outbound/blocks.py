"""Messages as Block Kit: cards, outcomes and notices.

Pure: no I/O. Text from an agent or a person is plain text, so that it cannot contain a mention, a
link, an emoji or bold text. Only our own words and times are mrkdwn. Every block respects Slack's
limits (https://docs.slack.dev/reference/block-kit/blocks).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    ConfirmObject,
    ContextBlock,
    DividerBlock,
    HeaderBlock,
    LinkButtonElement,
    Option,
    OverflowMenuElement,
    SectionBlock,
    TextObject,
)

from signoff.channels.pipeline.port import Entry, Kind, Message
from signoff.channels.slack.outbound.rows import (
    NAME,
    NO_ARGUMENTS,
    extent,
    is_whole,
    rows_of,
    without_arguments,
)
from signoff.channels.slack.references import (
    ANSWER,
    APPROVE,
    ASK,
    CARD,
    CLAIM,
    COMMENT,
    DETAILS,
    EXTEND,
    MORE,
    OPEN,
    REASSIGN,
    REJECT,
    RELEASE,
    REMIND,
    REVOKE,
    WITHDRAW,
    Reference,
    choice,
)
from signoff.channels.slack.text import (
    BUTTON,
    HEADER,
    SECTION,
    brief,
    clip,
    date,
    escape,
    markup,
    pieces,
    plain,
    units,
    weight,
)
from signoff.core.approvals.parts import Kind as Asks
from signoff.core.approvals.parts import Shown
from signoff.core.cards.card import Card, one_line, unbroken
from signoff.core.payloads.digest import short_digest
from signoff.core.policies.levels import Verdict

_ROOM: Final = 9_500
"""The most characters of a message, by `weight`.

Slack refuses more than about 12,000 (``msg_blocks_too_long``), and does not say how it counts. It
accepted 9,600 in 50 blocks, and refused 11,300: https://github.com/slackapi/bolt-js/issues/2867.
"""

_SUMMARY: Final = 300
_LINE: Final = 500
_WHO: Final = 150
_ID: Final = 64
_HINT: Final = 600
_MOST_COMMENTS: Final = 5
_ENTRY: Final = 140
_REQUESTER: Final = 50
_MOST_PIECES: Final = 2
"""The most blocks of free text below a card."""

Json = dict[str, Any]
"""JSON as slack-sdk sends it."""


def opening(message: Message) -> tuple[str, list[Block]]:
    """Return the text and the blocks of a card or a bundle."""
    text = f"{_mention(message)} {summary(message)}".strip()
    return text, bundle_blocks(message) if message.kind is Kind.BUNDLE else card_blocks(message)


def bundle_blocks(message: Message) -> list[Block]:
    """Return the blocks of a bundle: a section for each request, with a link button."""
    head = [*_mentioned(message), HeaderBlock(text=plain(one_line(message.headline), HEADER))]
    return [*head, *_paragraphs(message.text), *map(_entry_block, message.entries)]


def _entry_block(entry: Entry) -> SectionBlock:
    said = brief(one_line(entry.title), _ENTRY).text
    if entry.outcome:
        return SectionBlock(text=brief(f"▪️ {said}: {one_line(entry.outcome)}", 2 * _ENTRY))
    by = clip(one_line(entry.requester), _REQUESTER, weight)
    who = f"Requested by {by}" if by else ""
    until = [markup(f"until {date(entry.deadline)}")] if entry.deadline is not None else []
    return SectionBlock(
        text=plain(f"{said}\n{who}".rstrip(), _SUMMARY),
        fields=until or None,
        accessory=_page(entry.link) if entry.link else None,
    )


def place_and_group(address: str) -> tuple[str, str]:
    """Return the place in an address, and the user group to mention there, "" for none."""
    place, _, group = address.partition("+")
    return (address, "") if "@" in address else (place, group)


def _mention(message: Message) -> str:
    group = place_and_group(message.address)[1]
    return f"<!subteam^{escape(group, _ID)}>" if group else ""


def _mentioned(message: Message) -> Iterator[Block]:
    if mention := _mention(message):
        yield SectionBlock(text=markup(mention))


def card_blocks(message: Message) -> list[Block]:
    """Return the blocks of an open card."""
    card, to, inbox = message.card, message.person, message.link
    head = [*_mentioned(message), *_head(card), *_progress(card)]
    where, buttons = _where_to_approve(card, to, inbox), _buttons(card, to=to, inbox=inbox)
    tail = [*_claim(card), *_form(card), *where, buttons, _small_print(card)]
    return [*head, *_explanation(card, _ROOM - _weight(head) - _weight(tail)), *tail]


def outcome_blocks(message: Message) -> list[Block]:
    """Return the blocks of an ended card: the request and its outcome, without buttons."""
    card, mark = message.card, "✅" if message.good else "▪️"
    head = [*_head(card, open_still=False)]
    tail = [
        DividerBlock(),
        SectionBlock(text=brief(f"{mark} {one_line(message.headline)}", _SUMMARY)),
    ]
    small = _small_print(card)
    room = _ROOM - _weight([*head, *tail, small])
    tail += _paragraphs(message.text, room)
    return [*head, *_explanation(card, room - _weight(tail)), *tail, small]


def _weight(blocks: Iterable[Block]) -> int:
    """Return the length of the texts of blocks; see `weight`."""
    return sum(weight(text) for block in blocks for text in _texts_in(block))


def _texts_in(part: object) -> Iterator[str]:
    if isinstance(part, TextObject):
        yield part.text
    for name in ("text", "fields", "elements", "accessory"):
        found = getattr(part, name, None)
        for one in found if isinstance(found, list) else [found]:
            if one is not None and not isinstance(one, str):
                yield from _texts_in(one)


def notice_blocks(message: Message) -> list[Block]:
    """Return the blocks of a notice or a result."""
    elements: list[ButtonElement | LinkButtonElement] = []
    if message.kind is Kind.QUESTION:
        value = _reference(message.card, message.person).text()
        elements += [
            ButtonElement(text=plain(text, BUTTON), action_id=action, value=value, style=style)
            for text, action, style in (
                ("Answer…", ANSWER, "primary"),
                ("Remind", REMIND, None),
                ("Withdraw…", WITHDRAW, None),
            )
        ]
    if message.offers == "revoke":
        elements.append(_revoke(message))
    if message.link:
        elements.append(_page(message.link))
    return [
        SectionBlock(text=plain(one_line(message.headline), _SUMMARY)),
        *_paragraphs(message.text),
        *([ActionsBlock(elements=elements)] if elements else []),
    ]


def summary(message: Message) -> str:
    """Return the escaped line for notifications and screen readers."""
    open_still = message.kind in {Kind.CARD, Kind.UPDATE}
    line = message.card.title if open_still else message.headline
    return escape(one_line(line), _SUMMARY)


def metadata(message: Message) -> Json:
    """Return the metadata that identifies a card (message metadata of the Web API)."""
    payload = {"approval": message.card.approval, "to": message.person}
    if message.level_key:
        payload["turn"] = message.level_key
    return {"event_type": CARD, "event_payload": payload}


def _head(card: Card, *, open_still: bool = True) -> Iterator[Block]:
    whole = is_whole(card)
    yield HeaderBlock(text=plain(card.title, HEADER))
    yield SectionBlock(fields=_requester_and_deadline(card, open_still=open_still))
    if card.warnings:
        said = "\n".join(f"⚠️ {one}" for one in card.warnings)
        yield SectionBlock(text=brief(said, _LINE * 2))
    if card.hint:
        hint = plain(card.hint) if whole else brief(card.hint, _HINT)
        yield SectionBlock(text=hint, expand=whole or None)
    if without_arguments(card):
        yield SectionBlock(text=plain(NO_ARGUMENTS))
    yield from rows_of(card, whole=whole)


def _form(card: Card) -> Iterator[Block]:
    if card.fields:
        names = ", ".join(row.name for row in card.fields)
        yield SectionBlock(text=brief(f"To be filled in: {names}", _SUMMARY))


def _where_to_approve(card: Card, to: str, inbox: str) -> Iterator[Block]:
    """Yield where the request can be approved, if the card does not show the whole call."""
    if is_whole(card):
        return
    if extent(card) is Shown.COMPLETE:
        yield ContextBlock(
            elements=[plain(f"Some of it is folded. {_more(card, to)} shows all of it.")]
        )
    elif not card.in_two_steps:
        where = "on its page" if inbox else f"with `signoff approvals show {card.approval}`"
        text = f"Slack cannot show the whole request. Read it {where} and approve it there."
        yield SectionBlock(text=plain(f"⚠️ {text} You can reject it here."))


def _progress(card: Card) -> Iterator[Block]:
    """Yield why the person is asked, who answered, and who is still asked."""
    lines = [
        card.escalated,
        card.progress,
        f"Still asked: {card.awaited}" if card.awaited else "",
        card.similar,
        "An approval counts only after you confirm it on its page." if card.in_two_steps else "",
    ]
    if said := "\n".join(brief(line, _LINE).text for line in lines if line):
        yield SectionBlock(text=plain(said))


def _explanation(card: Card, room: int) -> list[Block]:
    """Return the remarks before the call, and the latest comments, as far as there is room."""
    remarks: list[Block] = []
    for said_by, text in card.remarks:
        about = plain(f"{said_by} wrote (not verified):", NAME)
        remarks.append(ContextBlock(elements=[about, plain(text, SECTION)]))
    comments: list[Block] = []
    for one in card.comments[-_MOST_COMMENTS:]:
        who, at = plain(one.who, NAME), markup(date(one.at))
        comments.append(ContextBlock(elements=[who, at, plain(one.text, SECTION)]))
    # The earliest comments go first, then what was said before the call.
    while len(comments) > 1 and _weight([*remarks, *comments]) > room:
        del comments[0]
    if _weight(comments) > room:
        comments = []
    while remarks and _weight([*remarks, *comments]) > room:
        del remarks[-1]
    return [*remarks, *comments]


def _claim(card: Card) -> Iterator[Block]:
    if card.claimed and card.claimed_until is not None:
        who = brief(f"Claimed by {card.claimed}", NAME)
        yield ContextBlock(elements=[who, markup(f"until {date(card.claimed_until)}")])


def _requester_and_deadline(card: Card, *, open_still: bool) -> list[TextObject]:
    """Return the requester and the deadline, which must be visible above the buttons."""
    said: list[TextObject] = [brief(f"Requested by {card.requester}", _WHO)]
    if open_still and card.deadline is not None:
        said.append(markup(f"Answer until *{date(card.deadline)}*"))
    if open_still and card.level:
        said.append(brief(f"Level {card.level}", _WHO))
    return said


def _small_print(card: Card) -> ContextBlock:
    """Return the ids of the call in small print; the Details modal shows more."""
    return ContextBlock(elements=[plain(f"digest {short_digest(card.digest)}")])


def _page(address: str) -> LinkButtonElement:
    return LinkButtonElement(text=plain("Open page", BUTTON), url=address, action_id=OPEN)


def _buttons(card: Card, *, to: str, inbox: str) -> ActionsBlock:
    reference = _reference(card, to)
    value = reference.text()
    no = "Decline" if card.kind is Asks.INPUT else "Reject"
    elements: list[ButtonElement | LinkButtonElement | OverflowMenuElement] = []
    confirm = _confirm(card) if card.risky and _approves_at_once(card, to) else None
    # With two steps, the confirmation page shows the whole call.
    if extent(card) is Shown.COMPLETE or card.in_two_steps:
        elements.append(
            ButtonElement(
                text=plain(_more(card, to), BUTTON),
                action_id=APPROVE,
                value=value,
                style="primary",
                confirm=confirm,
            )
        )
    elements.append(
        ButtonElement(text=plain(no, BUTTON), action_id=REJECT, value=value, style="danger")
    )
    more = [("Details", DETAILS)]
    if card.asks_back:
        more.append(("Ask…", ASK))
    if card.claims:
        more.append(("Release", RELEASE) if card.claimed else ("Claim", CLAIM))
    elements += [
        ButtonElement(text=plain(text, BUTTON), action_id=action, value=value)
        for text, action in more
    ]
    if inbox:
        page = _page(inbox)
        elements.append(page)
    elements.append(_menu(card, reference))
    return ActionsBlock(block_id=f"signoff.{card.approval}", elements=elements)


def _approves_at_once(card: Card, to: str) -> bool:
    """Return whether the button of a card approves, instead of opening a form.

    In a channel, it also opens a form for people who may give a grant.
    """
    form = card.fields or card.optional or to in card.offer.who
    return is_whole(card) and not form and Verdict.APPROVE not in card.reasons


def _more(card: Card, to: str) -> str:
    """Return the label of the button that approves, or that opens a form."""
    if _approves_at_once(card, to):
        return "Approve"
    has_values = card.fields or card.optional
    return "Answer…" if card.kind is Asks.INPUT and has_values else "Approve…"


def _reference(card: Card, to: str) -> Reference:
    return Reference(approval=card.approval, digest=short_digest(card.digest), to=to)


def _menu(card: Card, reference: Reference) -> OverflowMenuElement:
    """Return the menu of less frequent moves; permissions are checked later. Slack takes five."""
    in_a_place = reference.to.startswith("#")
    options = [("Comment…", COMMENT), ("Reassign…", REASSIGN)]
    if card.extends:
        options.append(("Extend…", EXTEND))
    if in_a_place or card.awaited:
        options.append(("Remind", REMIND))
    if in_a_place:
        # In a channel, the requester may see the card, too.
        options.append(("Withdraw…", WITHDRAW))
    return OverflowMenuElement(
        action_id=MORE,
        options=[
            Option(value=choice(action, reference), text=plain(text)) for text, action in options
        ],
    )


def _confirm(card: Card) -> ConfirmObject:
    shown = ", ".join(f"{row.name} = {unbroken(row.value)}" for row in card.rows)
    text = f"{card.tool} will run with {shown}" if shown else f"{card.tool} will run"
    if units(text) > _SUMMARY:
        text = "It will run exactly as it is shown."
    return ConfirmObject(
        title=plain("Are you sure?", 100),
        text=plain(text, _SUMMARY),
        confirm=plain("Approve", 30),
        deny=plain("Cancel", 30),
        style="danger",
    )


def _revoke(message: Message) -> ButtonElement:
    confirm = ConfirmObject(
        title=plain("Are you sure?", 100),
        text=plain("You are asked about the next call like it again.", 300),
        confirm=plain("Revoke", 30),
        deny=plain("Cancel", 30),
        style="danger",
    )
    value = _reference(message.card, message.person).text()
    text = plain("Revoke", BUTTON)
    return ButtonElement(text=text, action_id=REVOKE, value=value, style="danger", confirm=confirm)


def _paragraphs(text: str, room: int = _ROOM) -> Iterator[Block]:
    """Yield a text in as few blocks as possible; a text that is too long ends in "…"."""
    whole = "\n\n".join(filter(None, (part.strip() for part in text.split("\n\n"))))
    for piece in pieces(clip(whole, room, weight), SECTION, _MOST_PIECES):
        yield SectionBlock(text=plain(piece.strip()))
