"""A message as Block Kit: the card, what it becomes when it is over, and notices.

Pure: no I/O. Every text of an agent or a person is plain text or escaped, so that none of it is a
mention, a link or an emoji; every block keeps to Slack's limits
(https://docs.slack.dev/reference/block-kit/blocks).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
)

from signoff.channels.port import Kind, Message
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
    short,
)
from signoff.channels.slack.text import (
    BUTTON,
    FIELD,
    HEADER,
    SECTION,
    clip,
    date,
    escape,
    markup,
    pieces,
    plain,
)
from signoff.core.card import Card, Row, one_line
from signoff.core.parts import Kind as Asks

MOST_ROWS: Final = 20
"""Arguments on the card itself; the others are behind Details."""

NO_ARGUMENTS: Final = "It takes no arguments."

_FOLDED: Final = 160
"""Characters of a value on the card itself; the rest is behind Details."""

_ROWS_A_SECTION: Final = 5
_SUMMARY: Final = 300
_ID: Final = 64
_HINT: Final = 600

Json = dict[str, Any]
"""What slack-sdk sends: JSON of Slack's own making."""


def card_message(message: Message) -> tuple[str, list[Block]]:
    """Return the text and the blocks of a card, as they are posted."""
    group = "" if "@" in message.address else place_and_group(message.address)[1]
    mention = f"<!subteam^{escape(group, _ID)}> " if group else ""
    return mention + summary(message), card_blocks(message, inbox=message.link, group=group)


def place_and_group(address: str) -> tuple[str, str]:
    """Return the conversation of an address, and the user group to mention there."""
    place, _, group = address.partition("+")
    return place, group


def card_blocks(message: Message, *, inbox: str = "", group: str = "") -> list[Block]:
    """Return the blocks of an open card.

    Args:
        message: What is asked, of whom.
        inbox: The address of its page, "" where there is no inbox page.
        group: The id of a user group to mention, "" for none.
    """
    card = message.card
    mention = [SectionBlock(text=markup(f"<!subteam^{escape(group, _ID)}>"))] if group else []
    buttons = _buttons(card, to=message.person, inbox=inbox)
    return [*mention, *_head(card, open_still=True), buttons, _marks(card)]


def outcome_blocks(message: Message) -> list[Block]:
    """Return the blocks of a card that is over: what was asked, what came of it, no buttons."""
    mark = "✅" if message.good else "▪️"
    return [
        *_head(message.card, open_still=False),
        DividerBlock(),
        SectionBlock(text=plain(f"{mark} {one_line(message.headline)}", _SUMMARY)),
        *_paragraphs(message.text),
        _marks(message.card),
    ]


def notice_blocks(message: Message) -> list[Block]:
    """Return the blocks of an answer to what a person did, or of what the agent did with it."""
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
    """Return the one line for notifications and screen readers, escaped."""
    open_still = message.kind in {Kind.CARD, Kind.UPDATE}
    line = message.card.title if open_still else message.headline
    return escape(one_line(line), _SUMMARY)


def metadata(message: Message) -> Json:
    """Return the metadata by which a card is found again (message metadata of the Web API)."""
    payload = {"approval": message.card.approval, "to": message.person}
    if message.turn:
        payload["turn"] = message.turn
    return {"event_type": CARD, "event_payload": payload}


def rows_in_full(rows: Sequence[Row], *, most: int) -> Iterator[Block]:
    """Yield arguments in full, as far as so many blocks hold them; what is left out is said."""
    left = most
    for at, row in enumerate(rows):
        if left < 3:
            more = f"… and {len(rows) - at:,} more; the digest covers them too"
            yield ContextBlock(elements=[plain(more)])
            return
        name = markup(f"*{escape(row.name, _SUMMARY)}*")
        if row.value == _fold(row.value):
            yield SectionBlock(fields=[name, plain(row.value, FIELD)])
            left -= 1
            continue
        parts = pieces(row.value, SECTION, left - 2)
        yield SectionBlock(text=name)
        for part in parts:
            yield SectionBlock(text=plain(part))
        left -= 1 + len(parts)


def without_arguments(card: Card) -> bool:
    """Say whether a call takes none; a question has none to miss."""
    return not card.rows and card.kind is not Asks.INPUT


def _head(card: Card, *, open_still: bool) -> Iterator[Block]:
    yield HeaderBlock(text=plain(card.title, HEADER))
    yield SectionBlock(text=markup(_who(card, open_still=open_still)))
    if card.hint:
        yield SectionBlock(text=plain(card.hint, _HINT))
    if without_arguments(card):
        yield SectionBlock(text=plain(NO_ARGUMENTS))
    shown = card.rows[:MOST_ROWS]
    for at in range(0, len(shown), _ROWS_A_SECTION):
        fields = []
        for row in shown[at : at + _ROWS_A_SECTION]:
            # The value in a field of its own: only plain text shows it exactly as it is.
            fields += [markup(f"*{escape(row.name, _SUMMARY)}*"), plain(_fold(row.value), FIELD)]
        yield SectionBlock(fields=fields)
    if left := len(card.rows) - len(shown):
        yield ContextBlock(elements=[plain(f"… and {left} more behind Details")])
    yield from _said(card)
    if open_still and card.fields:
        names = ", ".join(row.name for row in card.fields)
        yield SectionBlock(text=plain(f"To be filled in: {names}", _SUMMARY))


def _said(card: Card) -> Iterator[Block]:
    """Yield what was said about it, and who has claimed it."""
    for one in card.comments:
        yield ContextBlock(
            elements=[
                markup(f"*{escape(one.who, 100)}* · {date(one.at)}"),
                plain(one.text, SECTION),
            ]
        )
    if card.claimed and card.claimed_until is not None:
        said = f"Claimed by *{escape(card.claimed, 100)}* until {date(card.claimed_until)}"
        yield ContextBlock(elements=[markup(said)])


def _who(card: Card, *, open_still: bool) -> str:
    """Return who asks, and until when: what has to be seen before anything is pressed."""
    said = f"Asked for by *{escape(card.requester, 100)}*"
    if open_still and card.deadline is not None:
        said += f" · answer until *{date(card.deadline)}*"
    if open_still and card.level:
        said += f" · level {escape(card.level, 100)}"
    if open_still and card.progress:
        said += f"\n{escape(card.progress, 500)}"
    if open_still and card.awaited:
        said += f"\nStill asked: {escape(card.awaited, 500)}"
    if open_still and card.in_two_steps:
        said += "\nA yes has to be confirmed on its page afterwards."
    return said


def _marks(card: Card) -> ContextBlock:
    """Return what nobody needs in order to answer, in small print."""
    about = [f"app {escape(card.app, 100)}"]
    if card.policy:
        about.append(f"policy {escape(card.policy, 100)}")
    about += [card.approval, f"digest `{short(card.digest)}`"]
    return ContextBlock(elements=[markup(" · ".join(about))])


def _page(address: str) -> LinkButtonElement:
    return LinkButtonElement(text=plain("Open page", BUTTON), url=address, action_id=OPEN)


def _buttons(card: Card, *, to: str, inbox: str) -> ActionsBlock:
    reference = _reference(card, to)
    value = reference.text()
    yes, no = ("Answer", "Decline") if card.kind is Asks.INPUT else ("Approve", "Reject")
    elements: list[ButtonElement | LinkButtonElement | OverflowMenuElement] = []
    approves_at_once = not (card.fields or card.optional)
    confirm = _confirm(card) if card.risky and approves_at_once else None
    elements.append(
        ButtonElement(
            text=plain(yes, BUTTON),
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


def _reference(card: Card, to: str) -> Reference:
    return Reference(approval=card.approval, digest=short(card.digest), to=to)


def _menu(card: Card, reference: Reference) -> OverflowMenuElement:
    """Return what is wanted less often; who may is judged when it is chosen. Slack takes five."""
    in_a_place = reference.to.startswith("#")
    options = [("Comment…", COMMENT), ("Reassign…", REASSIGN)]
    if card.deadline is not None:
        options.append(("Extend…", EXTEND))
    if in_a_place or card.awaited:
        options.append(("Remind", REMIND))
    if in_a_place:
        # There the requester may see the card, too.
        options.append(("Withdraw…", WITHDRAW))
    return OverflowMenuElement(
        action_id=MORE,
        options=[
            Option(value=choice(action, reference), text=plain(text)) for text, action in options
        ],
    )


def _confirm(card: Card) -> ConfirmObject:
    shown = ", ".join(f"{row.name} = {one_line(row.value)}" for row in card.rows[:3])
    return ConfirmObject(
        title=plain("Are you sure?", 100),
        text=plain(f"{card.tool} will run with {shown}" if shown else f"{card.tool} will run", 300),
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


def _paragraphs(text: str) -> Iterator[Block]:
    for paragraph in text.split("\n\n"):
        if paragraph.strip():
            yield SectionBlock(text=plain(paragraph.strip()))


def _fold(value: str) -> str:
    first = value.split("\n", 1)[0]
    line = clip(first, _FOLDED)
    return line if line == value else f"{line.removesuffix('…')}… (all of it behind Details)"
