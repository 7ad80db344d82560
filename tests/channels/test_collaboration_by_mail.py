"""Answers by mail that do not decide: claim, question, extension, withdrawal."""

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import CLEO, MARA, RILEY, present
from channels.conftest import Channels
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.email.outbound.render import html, plain_text
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.text_channel import text_of
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Policy
from signoff.testing import VirtualClock

MAILBOX = "approvals@signoff.example"
SETTINGS = EmailSettings(sender=MAILBOX, mailbox=MAILBOX)


DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")


@pytest.fixture
def directory() -> Directory:
    """The usual people, and Dan."""
    return Directory([MARA, CLEO, RILEY, DAN])


@pytest.fixture
def office(channels: Channels) -> Channels:
    """Return the stages of the channels; Mara and Cleo are asked."""
    channels.policies = (Policy(name="expenses", ask=("mara", "cleo"), within="4h"),)
    return channels


async def cards(office: Channels) -> tuple[Approval, dict[str, str]]:
    """Open a request; return it and the tokens of the people."""
    approval = await office.open()
    await office.router.drain()
    await office.delivery.drain()
    tokens = {one.person: one.token for one in office.channel.delivered}
    return await office.ledger.approval(approval.id), tokens


async def says(office: Channels, person: Person, token: str, text: str) -> dict[str, Message]:
    """Take in a person's mail, and return all deliveries after it, by person."""
    return {one.person: one for one in await office.receive(person, token, text)}


async def test_a_question_back_its_answer_and_the_approval(office: Channels) -> None:
    """Mara asks, Riley answers by reply, the card shows both, and Mara approves."""
    approval, tokens = await cards(office)

    told = await says(office, MARA, tokens["mara"], "? Which team is it for?")
    assert set(told) == {"mara", "riley"}
    assert told["mara"].headline == "Riley Voss was asked about reimburse"
    asked = told["riley"]
    assert (asked.kind, asked.token != "") == (Kind.QUESTION, True)
    assert "“Which team is it for?”" in asked.text
    for shown in (plain_text(asked, SETTINGS), html(asked, SETTINGS)):
        assert "mailto:" not in shown
        assert "Nobody reads" not in shown

    told = await says(office, RILEY, asked.token, "Hi,\nyes, it is for Sales.\n\nRiley")
    assert set(told) == {"mara", "riley"}
    assert told["riley"].headline == "Your answer about reimburse was passed on"
    assert "it is for Sales" in told["mara"].text
    approval = await office.ledger.approval(approval.id)
    assert approval.state is State.PENDING
    said = [(one.who, one.text.split("\n")[0]) for one in told["mara"].card.comments]
    assert said == [("Mara Lind", "Which team is it for?"), ("Riley Voss", "Hi,")]
    card = replace(told["mara"], kind=Kind.CARD)
    for shown in (plain_text(card, SETTINGS), html(card, SETTINGS), text_of(card)):
        assert "Which team is it for?" in shown
        assert "it is for Sales" in shown

    await says(office, MARA, told["mara"].token, "approve")
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).by) == (State.APPROVED, "mara")
    whats = await office.whats(approval)
    assert whats.index(What.ASKED_BACK) < whats.index(What.ANSWERED_BACK)
    assert whats.index(What.ANSWERED_BACK) < whats.index(What.APPROVED)


@pytest.mark.parametrize("answer", ["approve", "yes", "reject: no", "claim", "extend 4h: please"])
async def test_requester_token_answers_on_the_card_and_never_decides(
    office: Channels, answer: str
) -> None:
    """Riley's text is an answer on the card, and never a decision or a claim."""
    approval, tokens = await cards(office)
    told = await says(office, MARA, tokens["mara"], "ask: really?")
    await says(office, RILEY, told["riley"].token, answer)
    after = await office.ledger.approval(approval.id)
    assert (after.state, after.claimed, after.deadline) == (
        State.PENDING,
        None,
        approval.deadline,
    )
    assert [one.text for one in after.comments] == ["really?", answer]


async def test_requester_token_is_refused_from_another_address(
    office: Channels,
) -> None:
    """A mail from another address with it is refused, even from an approver."""
    approval, tokens = await cards(office)
    token = (await says(office, MARA, tokens["mara"], "ask: really?"))["riley"].token
    for person in (MARA, CLEO):
        await says(office, person, token, "approve")
        await says(office, person, token, "withdraw")
    after = await office.ledger.approval(approval.id)
    assert (after.state, len(after.comments)) == (State.PENDING, 1)


async def test_the_requester_withdraws_by_a_reply(office: Channels) -> None:
    """The question ends, its approvers are told, and the agent continues without the call."""
    approval, tokens = await cards(office)
    token = (await says(office, MARA, tokens["mara"], "ask: really?"))["riley"].token
    told = await says(office, RILEY, token, "withdraw: it was a mistake")
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).by) == (State.WITHDRAWN, "riley")
    assert present(after.decision).reason == "it was a mistake"
    assert (await office.ledger.run(approval.origin.run)).state is RunState.ANSWERED
    assert told["riley"].headline == "reimburse was withdrawn"
    assert {told["mara"].kind, told["cleo"].kind} == {Kind.OUTCOME}


async def test_requester_reply_reminds_approvers_at_most_once_an_hour(office: Channels) -> None:
    """The approvers are reminded, at most once an hour; the requester reads who they are."""
    approval, tokens = await cards(office)
    sent = (await says(office, MARA, tokens["mara"], "ask: really?"))["riley"]
    assert '"remind"' in sent.text
    told = await says(office, RILEY, sent.token, "Hi,\n\nremind\n\nRiley")
    assert told["riley"].headline == "A reminder about reimburse was sent"
    for one in ("mara", "cleo"):
        assert told[one].headline == "A reminder: reimburse waits for your answer"
    told = await says(office, RILEY, told["riley"].token, "remind")
    assert "an hour later" in told["riley"].text
    assert "mara" not in told
    after = await office.ledger.approval(approval.id)
    assert (after.state, len(after.comments)) == (State.PENDING, 1)


async def test_claim_by_mail_refuses_other_approvers_until_it_ends(office: Channels) -> None:
    """While Mara has the claim, Cleo's approval is refused with name and time; later it counts."""
    approval, tokens = await cards(office)
    told = await says(office, MARA, tokens["mara"], "claim 2h")
    assert told["mara"].headline.startswith("Claimed: reimburse is yours to decide until")
    told = await says(office, CLEO, tokens["cleo"], "approve")
    assert "Mara Lind has claimed" in told["cleo"].text
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    await says(office, MARA, tokens["mara"], "release")
    await says(office, CLEO, tokens["cleo"], "approve")
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).by) == (State.APPROVED, "cleo")


async def test_more_time_is_had_for_a_reason(office: Channels) -> None:
    """The deadline moves; without a reason the person reads what is missing."""
    approval, tokens = await cards(office)
    told = await says(office, MARA, tokens["mara"], "extend 2h")
    assert "needs a reason" in told["mara"].text
    await says(office, MARA, tokens["mara"], "extend 2h: the vendor calls back")
    after = await office.ledger.approval(approval.id)
    assert (present(after.deadline) - present(approval.deadline)).total_seconds() == 7_200


async def test_approver_who_writes_withdraw_is_asked_again(office: Channels) -> None:
    """If an approver writes "withdraw", they are asked again, because it may be a rejection."""
    approval, tokens = await cards(office)
    told = await says(office, MARA, tokens["mara"], "withdraw")
    assert told["mara"].headline.startswith("Nothing is decided yet")
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_repeated_mail_makes_one_comment(office: Channels) -> None:
    """A mail that arrives twice makes one comment."""
    approval, tokens = await cards(office)
    await says(office, MARA, tokens["mara"], "comment: as in the offer")
    office.mails -= 1
    await says(office, MARA, tokens["mara"], "comment: as in the offer")
    assert len((await office.ledger.approval(approval.id)).comments) == 1


async def test_a_place_is_handed_on(office: Channels) -> None:
    """Dan gets a card and decides; Mara, who forwarded it, cannot any more."""
    approval, tokens = await cards(office)
    told = await says(office, MARA, tokens["mara"], "forward to dan roe: he knows the vendor")
    assert told["mara"].headline == "Reassigned: Dan Roe decides reimburse now"
    assert "body=approve" not in html(told["mara"], SETTINGS)
    card = told["dan"]
    assert (card.kind, card.address) == (Kind.CARD, "dan@example.com")
    assert "he knows the vendor" in plain_text(card, SETTINGS)
    told = await says(office, MARA, tokens["mara"], "approve")
    assert "went to Dan Roe" in told["mara"].text
    await says(office, DAN, card.token, "approve")
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).by) == (State.APPROVED, "dan")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("forward to riley: please", "can never decide"),
        ("forward to zoe: please", "nobody called zoe"),
        ("forward to cleo: please", "is asked about"),
        ("forward to dan", "needs a reason"),
    ],
)
async def test_invalid_delegation_by_mail_is_refused(
    office: Channels, text: str, problem: str
) -> None:
    """It cannot go to the requester, to an unknown or asked person, or without a reason."""
    approval, tokens = await cards(office)
    told = await says(office, MARA, tokens["mara"], text)
    assert problem in told["mara"].text
    assert (await office.ledger.approval(approval.id)).approvers == {"mara", "cleo"}


async def test_the_operator_hands_on_and_reminds(office: Channels) -> None:
    """The former holder is told; the awaited people get a reminder with a new token."""
    approval, _ = await cards(office)
    root = Operator(name="root (cli)")
    await office.decider.made(approval.id, moves.Reassign(of=MARA, to=DAN, reason="ill"), root)
    await office.decider.made(approval.id, moves.Remind(), root)
    office.channel.delivered.clear()
    await office.router.drain()
    await office.delivery.drain()
    told = {(one.person, one.kind): one for one in office.channel.delivered}
    assert {("mara", Kind.NOTICE), ("dan", Kind.CARD), ("cleo", Kind.NOTICE)} <= set(told)
    assert told["mara", Kind.NOTICE].headline == "Dan Roe decides reimburse now"
    reminder = told["cleo", Kind.NOTICE]
    assert reminder.headline.startswith("A reminder")
    await says(office, CLEO, reminder.token, "approve")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_a_claim_that_ran_out_is_released_by_the_clockwork(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """After half an hour anybody may decide again, and the audit says why."""
    approval, _ = await still_channels.ask()
    await still_channels.decider.made(approval.id, moves.Claim(), MARA)
    clock.advance(timedelta(minutes=29))
    reconciler = Reconciler(still_channels.decider.roster)
    assert await reconciler.once() == 0
    clock.advance(timedelta(minutes=1))
    await reconciler.once()
    assert (await still_channels.ledger.approval(approval.id)).claimed is None
    released = [one for one in await still_channels.events(approval) if one.what is What.RELEASED]
    assert [one.why for one in released] == ["the claim ran out"]
