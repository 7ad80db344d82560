"""Whole tasks on the inbox page as people do them: by keyboard, on a phone, without scripts."""

from __future__ import annotations

import json

import pytest

from builders import CLEO, MARA, RILEY
from running_inbox import RunningInbox
from signoff.broker import stages
from signoff.core.approvals.approval import State
from signoff.core.approvals.run import RunState

pytestmark = pytest.mark.asyncio(loop_scope="module")

PHONE, DESK = 360, 1280
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


async def begin(at: RunningInbox, *, width: int, scripts: bool) -> None:
    """Set the width of the screen, and turn scripts on or off."""
    await at.tab.shape(width, 740, dark=False)
    await at.tab.do("Emulation.setScriptExecutionDisabled", value=not scripts)


@pytest.mark.parametrize(
    ("width", "scripts"), [(PHONE, False), pytest.param(DESK, True, marks=pytest.mark.soak)]
)
async def test_from_a_link_by_mail_to_the_end_of_the_run(
    at: RunningInbox, width: int, scripts: bool
) -> None:
    """By Tab and Enter alone: the link, the list, the request and its approval; the tool runs."""
    await begin(at, width=width, scripts=scripts)
    approval = await at.ask_by_agent("finance", "Please reimburse me $2500 for the conference")
    await at.open()
    await at.put("#link-address", MARA.email)
    await at.press("form[action$='/sign-in/link'] button")
    assert "Check your mail" in await at.tab.text()
    await at.tab.open(await at.mailed())
    assert "Sign in as Mara Lind" in await at.tab.text()
    await at.press("button.yes")

    assert "Your approvals" in await at.tab.text()
    assert not await at.tab.look(OVERFLOWS)
    await at.press(f"#open-{approval.id}")
    text = await at.tab.text()
    for words in ("finance asks to run reimburse", "2500", "the conference", approval.digest):
        assert words in text
    assert not await at.tab.look(OVERFLOWS)
    await at.put("#reason", "a good conference")
    await at.press("form[aria-label='Your answer'] button.yes")
    assert "Recorded: you approved reimburse" in await at.tab.text()

    await at.executor.drain(stages.resume("finance"))
    assert (await at.ledger.run(approval.origin.run)).state is RunState.COMPLETED
    assert json.loads(at.journal.read_text())["amount"] == 2500
    await at.open(approval)
    text = await at.tab.text()
    assert "The agent has resumed." in text
    assert "reimbursed" in text
    assert not await at.tab.look(OVERFLOWS)
    await at.press("form.out button")
    await at.open(approval)
    assert "Sign in" in await at.tab.text()
    assert "2500" not in await at.tab.text()


@pytest.mark.parametrize(
    ("width", "scripts"), [(PHONE, True), pytest.param(DESK, False, marks=pytest.mark.soak)]
)
async def test_a_no_reaches_the_agent_with_its_reason(
    at: RunningInbox, width: int, scripts: bool
) -> None:
    """The agent reads the reason of the rejection, and nothing is paid."""
    await begin(at, width=width, scripts=scripts)
    approval = await at.ask_by_agent("finance", "Please reimburse me $2500 for the conference")
    await at.come_in(MARA)
    await at.open(approval)
    await at.put("#reason", "the budget is spent")
    await at.press("button.no")
    assert "you rejected reimburse" in await at.tab.text()
    await at.executor.drain(stages.resume("finance"))
    run = await at.ledger.run(approval.origin.run)
    assert run.state is RunState.COMPLETED
    assert "the budget is spent" in run.text
    assert not at.journal.exists()


@pytest.mark.parametrize(
    ("width", "scripts"), [pytest.param(PHONE, False, marks=pytest.mark.soak), (DESK, True)]
)
async def test_a_form_is_filled_in(at: RunningInbox, width: int, scripts: bool) -> None:
    """An error appears at its field and loses no input; a correct value reaches the tool."""
    await begin(at, width=width, scripts=scripts)
    approval = await at.ask_by_agent("time_off", "I want 5 days off")
    await at.come_in(MARA)
    await at.open(approval)
    await at.put("#field-0", "three")
    await at.put("#reason", "before Easter")
    await at.press("form[aria-label='Your answer'] button.yes")
    await at.tab.focus_on("alert")
    assert await at.tab.look("document.getElementById('field-0').value") == "three"
    kept = await at.tab.look("document.getElementById('reason').value")
    assert kept.strip() == "before Easter"
    assert (await at.ledger.approval(approval.id)).state is State.PENDING
    await at.put("#field-0", "3")
    await at.press("form[aria-label='Your answer'] button.yes")
    assert "Recorded" in await at.tab.text()
    await at.executor.drain(stages.resume("time_off"))
    assert "3" in (await at.ledger.run(approval.origin.run)).text


@pytest.mark.parametrize(
    ("width", "scripts"), [pytest.param(PHONE, False, marks=pytest.mark.soak), (DESK, True)]
)
async def test_short_of_deciding(at: RunningInbox, width: int, scripts: bool) -> None:
    """Claim, comment, ask back, get the answer and release, all by keyboard."""
    await begin(at, width=width, scripts=scripts)
    approval = await at.ask()
    await at.come_in(MARA)
    await at.open(approval)
    await at.press("form[action$='/claim'] button")
    assert "Claimed by Mara Lind" in await at.tab.text()
    for move, words in (("comment", "I look at it today"), ("ask", "Which conference?")):
        await at.tab.tab_to(f"summary:has(+ form[action$='/{move}'])")
        await at.tab.key("Enter")
        await at.put(f"#{move}-text", words)
        await at.press(f"form[action$='/{move}'] button")
        assert words in await at.tab.text()
    await at.come_in(RILEY)
    await at.open(approval)
    assert "Which conference?" in await at.tab.text()
    assert await at.tab.look("document.querySelectorAll('button.no[formaction]').length") == 0
    await at.put("#answer-text", "The one in Lisbon")
    await at.press("form[action$='/answer'] button")
    await at.come_in(MARA)
    await at.open(approval)
    assert "The one in Lisbon" in await at.tab.text()
    assert not await at.tab.look(OVERFLOWS)
    await at.press("form[action$='/release'] button")
    after = await at.ledger.approval(approval.id)
    assert after.claim_at(await at.ledger.now()) is None
    assert after.state is State.PENDING


@pytest.mark.parametrize(
    ("width", "scripts"), [pytest.param(PHONE, False, marks=pytest.mark.soak), (DESK, True)]
)
async def test_several_requests_are_approved_together(
    at: RunningInbox, width: int, scripts: bool
) -> None:
    """Harmless requests are selected, shown in full and approved together; one is too late."""
    await begin(at, width=width, scripts=scripts)
    asked = [await at.ask(tool="remind_customer", customer=f"c-{one}") for one in range(3)]
    serious = await at.ask()
    await at.come_in(MARA)
    await at.open()
    assert await at.tab.look(f"document.getElementById('pick-{serious.id}')") is None
    for one in asked:
        await at.tab.tab_to(f"#pick-{one.id}")
        await at.tab.key(" ")
    await at.press("#batch .buttons button")
    text = await at.tab.text()
    assert "Approve 3 together" in text
    assert all(f"c-{one}" in text for one in range(3))
    assert not await at.tab.look(OVERFLOWS)
    await at.office.decider.reject(asked[1].id, MARA, channel="email", reason="not this one")
    await at.press("button.yes")
    assert "2 of 3 recorded" in await at.tab.text()
    assert not await at.tab.look(OVERFLOWS)
    states = [one.state for one in await at.ledger.approvals([one.id for one in asked])]
    assert states == [State.APPROVED, State.REJECTED, State.APPROVED]


@pytest.mark.parametrize(
    ("width", "scripts"), [pytest.param(PHONE, False, marks=pytest.mark.soak), (DESK, True)]
)
async def test_confirmation_of_a_mail_approval_requires_the_code(
    at: RunningInbox, width: int, scripts: bool
) -> None:
    """An approval by mail waits for its confirmation here, which needs the right code."""
    await begin(at, width=width, scripts=scripts)
    await at.enrol(MARA)
    approval = await at.ask(amount=9000, purpose="the fair")
    await at.office.decider.approve(approval.id, MARA, channel="email", reason="it pays")
    await at.come_in(MARA)
    await at.open(approval)
    assert "You approved this request" in await at.tab.text()
    await at.put("#code", "000000")
    await at.press("form[aria-label='Your answer'] button.yes")
    await at.tab.focus_on("alert")
    assert (await at.ledger.approval(approval.id)).state is State.PENDING
    await at.put("#code", await at.code())
    await at.press("form[aria-label='Your answer'] button.yes")
    assert "Recorded: you approved reimburse" in await at.tab.text()
    assert (await at.ledger.approval(approval.id)).state is State.APPROVED


async def test_open_pages_update_after_a_decision_by_mail(at: RunningInbox) -> None:
    """The list removes what a mail decided, and the request names the decider, without a reload."""
    await begin(at, width=DESK, scripts=True)
    first, second = await at.ask(), await at.ask(amount=30)
    await at.come_in(MARA)
    await at.open()
    await at.tab.look("window.loaded = 'once'")
    await at.tab.find(f"#open-{first.id}")
    await at.office.decider.approve(first.id, CLEO, channel="email")
    await at.tab.find("#news", "1 pending for you.")
    assert await at.tab.look(f"document.getElementById('open-{first.id}')") is None
    assert await at.tab.look("window.loaded") == "once"

    await at.open(second)
    await at.tab.look("window.loaded = 'once'")
    await at.tab.write("#reason", "I was about to say")
    await at.office.decider.reject(second.id, CLEO, channel="email", reason="no room")
    await at.tab.find("#news", "Cleo Park rejected reimburse")
    kept = await at.tab.look("document.getElementById('reason').value")
    assert kept.strip() == "I was about to say"
    assert await at.tab.look("window.loaded") == "once"
