"""The modals: the form of an approval, the reason of a rejection, the details, and others.

Pure: no I/O. https://docs.slack.dev/reference/views/modal-views
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    CheckboxesElement,
    ContextBlock,
    DatePickerElement,
    InputBlock,
    Option,
    PlainTextInputElement,
    SectionBlock,
    StaticSelectElement,
    UserSelectElement,
)
from slack_sdk.models.views import View

from signoff.channels.form_fields import Field
from signoff.channels.slack.form import VALUE, inputs
from signoff.channels.slack.outbound.rows import (
    MOST_IN_MODAL,
    NO_ARGUMENTS,
    rows_in_full,
    without_arguments,
)
from signoff.channels.slack.references import (
    ANSWER,
    APPROVE,
    ASK,
    AWAY,
    COMMENT,
    DETAILS,
    EXTEND,
    REASSIGN,
    REJECT,
    REMIND,
    WITHDRAW,
    Reference,
)
from signoff.channels.slack.text import MODAL_TITLE, SECTION, markup, pieces, plain
from signoff.channels.slack.text import date as in_their_zone
from signoff.core.approvals.parts import Kind as Asks
from signoff.core.base.counts import counted
from signoff.core.base.text import LONGEST_REASON
from signoff.core.cards.card import Card, one_line
from signoff.core.payloads.digest import short_digest
from signoff.core.policies.levels import Verdict

REASON: Final = "reason"
"""The block id of the reason."""

SPAN: Final = "span"
"""The block id of the duration of a grant for similar calls."""

TO: Final = "to"
"""The block id of the new approver."""

LENGTH: Final = "length"
"""The block id of the additional time."""

FIRST_DAY: Final = "first"
LAST_DAY: Final = "last"
STANDS_IN: Final = "delegate"
HAND_OVER: Final = "hand_over"
BACK: Final = "back"
"""The block ids of an absence; the single options of the last two have the same names."""

MOST_REQUESTS: Final = 20
"""The most requests in one modal, of three blocks each."""

_LONGEST_NAMES: Final = 500
_ABOUT: Final = 4
"""The blocks of a modal for the title, the warnings and the hint, and one for small print."""
_MOST_PIECES: Final = 20


class Confirmation(NamedTuple):
    """What a modal shows again, because the reason reads like no plain yes.

    Attributes:
        problem: Why it asks again, in words for the person.
        reason: The reason as it was entered.
        span: The chosen duration of a grant, "" for none.
    """

    problem: str
    reason: str
    span: str = ""


def approve_view(
    card: Card,
    reference: Reference,
    wanted: Sequence[Field],
    *,
    may_grant: bool = False,
    confirm: Confirmation | None = None,
) -> View:
    """Return the modal with the form of an approval.

    Args:
        card: The card of the request.
        reference: The reference, which the modal keeps.
        wanted: The fields of the form.
        may_grant: Whether the person may give a grant for similar calls.
        confirm: What the person has to confirm, None for nothing.
    """
    answers = card.kind is Asks.INPUT
    form: list[Block] = list(inputs(wanted))
    if not answers:
        reason, needed = confirm.reason if confirm else "", Verdict.APPROVE in card.reasons
        form.append(_reason("Reason (the agent reads it)", optional=not needed, first=reason))
    if may_grant:
        form.append(_spans(card, confirm.span if confirm else ""))
    room = MOST_IN_MODAL - len(form) - _ABOUT - (confirm is not None)
    title = "Answer" if answers else "Approve"
    submit = "Send" if answers else "Approve as it is" if confirm else "Approve"
    blocks = [*_about(card, room), *form]
    if confirm:
        # First, because a long call would hide it.
        how = " To reject it, cancel and press Reject."
        blocks.insert(0, SectionBlock(text=plain(f"⚠️ {confirm.problem}{how}", SECTION)))
    return _modal(APPROVE, title, submit, reference, blocks)


def reject_view(card: Card, reference: Reference) -> View:
    """Return the modal for the reason of a rejection."""
    label = "Why? The agent reads it and can propose something else."
    no = "Decline" if card.kind is Asks.INPUT else "Reject"
    needed = Verdict.REJECT in card.reasons
    blocks = [_title(card), _reason(label, optional=not needed)]
    return _modal(REJECT, no, no, reference, blocks)


def ask_view(card: Card, reference: Reference) -> View:
    """Return the modal for a question to the requester."""
    label = f"What do you want to know from {card.requester}?"
    form = _reason(label, optional=False)
    return _modal(ASK, "Ask", "Send", reference, [_title(card), form])


def comment_view(card: Card, reference: Reference) -> View:
    """Return the modal for a comment."""
    form = _reason("What do you want to say? All who see the card read it.", optional=False)
    return _modal(COMMENT, "Comment", "Send", reference, [_title(card), form])


def reassign_view(card: Card, reference: Reference) -> View:
    """Return the modal in which an approver reassigns their seat."""
    to = InputBlock(
        block_id=TO,
        label=plain("Who decides instead of you?"),
        hint=plain("They get a card of their own, and your answer does not count any more."),
        element=UserSelectElement(action_id=VALUE),
    )
    form = [_title(card), to, _reason("Why? It stands on the card.", optional=False)]
    return _modal(REASSIGN, "Reassign", "Reassign", reference, form)


def extend_view(card: Card, reference: Reference, most: str) -> View:
    """Return the modal to extend the deadline; `most` is the longest extension, as text."""
    length = InputBlock(
        block_id=LENGTH,
        label=plain("How much more time?"),
        hint=plain(f"Such as 30m, 4h or 1d; {most} at most."),
        element=PlainTextInputElement(action_id=VALUE, max_length=40),
    )
    form = [_title(card), length, _reason("Why? The people who wait can read it.", optional=False)]
    return _modal(EXTEND, "Extend", "Extend", reference, form)


def withdraw_view(card: Card, reference: Reference) -> View:
    """Return the modal in which the requester withdraws the request."""
    form = [_title(card), _reason("Why? The agent reads it.", optional=True)]
    return _modal(WITHDRAW, "Withdraw", "Withdraw", reference, form)


def answer_view(card: Card, reference: Reference, question: str) -> View:
    """Return the modal in which the requester answers; `question` is "" if none is open."""
    asked = [SectionBlock(text=plain(question, SECTION))] if question else []
    form = _reason("Your answer appears on the card, and decides nothing.", optional=False)
    return _modal(ANSWER, "Answer", "Send", reference, [_title(card), *asked, form])


def details_view(card: Card) -> View:
    """Return the modal with all details, up to the limits of a modal."""
    marks = f"{card.details}\n{card.digest}"
    blocks = [*_about(card, MOST_IN_MODAL - 2), ContextBlock(elements=[plain(marks)])]
    return _view(DETAILS, "Details", blocks)


def away_view(today: date, away: str, *, waiting: int) -> View:
    """Return the modal in which a person sets an absence.

    Args:
        today: The current day in the person's time zone.
        away: A description of the current absence, "" if there is none.
        waiting: The number of requests that wait for their answer.
    """
    first = DatePickerElement(action_id=VALUE, initial_date=today.isoformat())
    last, stands_in = DatePickerElement(action_id=VALUE), UserSelectElement(action_id=VALUE)
    # A person who is back does not enter a last day.
    form: list[Block] = [
        InputBlock(block_id=FIRST_DAY, label=plain("First day"), element=first),
        InputBlock(block_id=LAST_DAY, label=plain("Last day"), element=last, optional=bool(away)),
        InputBlock(
            block_id=STANDS_IN,
            label=plain("Who stands in"),
            hint=plain("They decide what is asked of you. Leave it empty for nobody."),
            element=stands_in,
            optional=True,
        ),
    ]
    if waiting:
        many = counted(waiting, "request")
        hand = Option(value=HAND_OVER, text=plain("Reassign them to this person"))
        tick = CheckboxesElement(action_id=VALUE, options=[hand])
        label, hint = plain(f"{many} still waiting for you"), plain("You cannot answer them then.")
        form.append(
            InputBlock(block_id=HAND_OVER, label=label, hint=hint, element=tick, optional=True)
        )
    if away:
        back = Option(value=BACK, text=plain("I am back: end it, and leave out the rest"))
        tick = CheckboxesElement(action_id=VALUE, options=[back])
        label = plain("Or")
        form.append(InputBlock(block_id=BACK, label=label, element=tick, optional=True))
        form.insert(0, SectionBlock(text=plain(away, SECTION)))
    return _view(AWAY, "Away", form, submit="Save")


def requests_view(waiting: Sequence[tuple[Card, str]], *, more: bool = False) -> View:
    """Return the modal with a person's own pending requests, at most `MOST_REQUESTS`.

    Each card comes with the names of the awaited approvers. `more` says that there are others.
    """
    blocks: list[Block] = []
    for card, awaited in waiting[:MOST_REQUESTS]:
        reference = Reference(approval=card.approval, digest=short_digest(card.digest)).text()
        whom = f"Waits for {awaited}" if awaited else "Nobody can be asked yet"
        until = [markup(f"Answer until *{in_their_zone(card.deadline)}*")] if card.deadline else []
        blocks += [
            SectionBlock(text=plain(card.title, SECTION)),
            ContextBlock(elements=[plain(whom, _LONGEST_NAMES), *until]),
            ActionsBlock(
                elements=[
                    ButtonElement(text=plain("Remind"), action_id=REMIND, value=reference),
                    ButtonElement(text=plain("Withdraw…"), action_id=WITHDRAW, value=reference),
                ]
            ),
        ]
    if not blocks:
        blocks.append(SectionBlock(text=plain("You have no pending requests.")))
    if more:
        blocks.append(ContextBlock(elements=[plain("… and more that are older")]))
    return _view(DETAILS, "What you asked for", blocks)


def notice_view(headline: str, text: str, *, title: str = "Nothing changed") -> View:
    """Return the modal that tells the result of a submission."""
    said = [SectionBlock(text=plain(one_line(headline), SECTION))]
    said += [SectionBlock(text=plain(part)) for part in pieces(text.strip(), SECTION, _MOST_PIECES)]
    return _view(DETAILS, title, said)


def _modal(
    callback: str, title: str, submit: str, reference: Reference, blocks: Sequence[Block]
) -> View:
    return _view(callback, title, blocks, submit=submit, metadata=reference.text())


def _view(
    callback: str, title: str, blocks: Sequence[Block], *, submit: str = "", metadata: str = ""
) -> View:
    return View(
        type="modal",
        callback_id=callback,
        title=plain(title, MODAL_TITLE),
        submit=plain(submit, MODAL_TITLE) if submit else None,
        close=plain("Cancel" if submit else "Close", MODAL_TITLE),
        private_metadata=metadata or None,
        blocks=blocks,
    )


def _title(card: Card) -> SectionBlock:
    return SectionBlock(text=plain(card.title, SECTION))


def _about(card: Card, room: int) -> list[Block]:
    """Return the title and the call, in at most `room` blocks if possible."""
    head: list[Block] = [_title(card)]
    if card.warnings:
        head.append(SectionBlock(text=plain("\n".join(f"⚠️ {one}" for one in card.warnings))))
    if card.hint:
        head.append(SectionBlock(text=plain(card.hint, SECTION), expand=True))
    if not card.rows:
        none = SectionBlock(text=plain(NO_ARGUMENTS))
        return [*head, none] if without_arguments(card) else head
    return [*head, *rows_in_full(card.rows, most=max(room - len(head), 3))]


def _spans(card: Card, chosen: str = "") -> InputBlock:
    options = [Option(value=one, text=plain(one)) for one in card.offer.spans]
    return InputBlock(
        block_id=SPAN,
        label=plain("Approve calls like it, too, for"),
        hint=plain(card.offer.terms, SECTION),
        optional=True,
        element=StaticSelectElement(
            action_id=VALUE,
            options=options,
            initial_option=next((one for one in options if one.value == chosen), None),
        ),
    )


def _reason(label: str, *, optional: bool, first: str = "") -> InputBlock:
    return InputBlock(
        block_id=REASON,
        label=plain(label),
        optional=optional,
        element=PlainTextInputElement(
            action_id=VALUE,
            multiline=True,
            max_length=LONGEST_REASON,
            initial_value=first or None,
        ),
    )
