"""The inbox page: its content, sign-in and decisions."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

from browser import Browser, forms_of
from builders import CLEO, MARA, present
from channels.conftest import Channels
from signoff.broker.ledger.change import Change
from signoff.channels.email.outbound.render import html, plain_text
from signoff.channels.email.settings import EmailSettings
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Comment
from signoff.core.approvals.parts import mark_of
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import AlreadyDecided
from signoff.core.policies.policy import Policy

FREE = Policy(name="free", ask=("mara",), within="4h")


async def test_the_navigation_marks_its_present_page(browser: Browser) -> None:
    """Each page that the navigation leads to is marked there, and only that one."""
    await browser.sign_in()
    page = await browser.get("/inbox/")
    links = re.findall(r'<a href="(/inbox/[a-z]*)"(?: aria-current="page")?>', page.text)
    assert len(links) > 5
    for link in links:
        marked = re.findall(r'href="(\S+)" aria-current="page"', (await browser.get(link)).text)
        assert marked == [link]


async def noted(office: Channels, **parts: Any) -> tuple[Approval, str]:
    """Open an approval with a first step of Mara's by mail; return it and its path."""
    approval, _ = await office.ask(**parts)
    said = {"reason": parts.pop("reason", "fine by me")}
    await office.decider.approve(approval.id, MARA, channel="email", **said)
    return approval, page_of(approval.id)


async def test_a_mail_approval_is_confirmed_on_the_page(browser: Browser, office: Channels) -> None:
    """A mail's link leads to the sign-in and the page; the confirmation decides."""
    approval, path = await noted(office)

    sent_on = await browser.get(path)
    assert sent_on.status_code == 303
    sign_in = sent_on.headers["Location"]
    assert sign_in == f"/inbox/sign-in?next={path}"
    assert forms_of(await browser.get(sign_in))["/inbox/sign-in"]["next"] == path
    assert (await browser.sign_in(to=path)).headers["Location"] == path

    page = await browser.get(path)
    assert page.status_code == 200
    for text in ("asks to run reimburse", "2500", "Riley Voss", "fine by me", approval.digest):
        assert text in page.text
    assert (await browser.press(path)).headers["Location"] == path

    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).by) == (State.APPROVED, "mara")
    assert (present(after.decision).channel, present(after.decision).reason) == (
        "inbox",
        "fine by me",
    )
    assert (await office.ledger.run(after.origin.run)).state is RunState.ANSWERED
    event = (await office.events(approval))[-1]
    assert (event.more["first_step"], event.more["second_factor"]) == ("email", "totp")
    assert "Recorded: you approved reimburse" in (await browser.get(path)).text


async def test_a_two_step_approval_needs_the_mail_first(browser: Browser, office: Channels) -> None:
    """The page says that the mail comes first, has no approve button, and refuses an approval."""
    approval, _ = await office.ask()
    path = page_of(approval.id)
    await browser.sign_in()
    page = await browser.get(path)
    assert "An approval needs two steps." in page.text
    assert "Approve exactly this" not in page.text

    answer = await browser.press(path)

    assert answer.status_code == 409
    assert "answer the message that asked you" in answer.text
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert (await office.whats(approval))[-1] is What.REFUSED_ANSWER


async def test_a_no_is_recorded_with_its_reason(browser: Browser, office: Channels) -> None:
    """This holds with and without an earlier mail."""
    approval, path = await noted(office)
    await browser.sign_in()
    await browser.press(path, "reject", reason="that mail was\r\nnot mine")
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).reason) == (
        State.REJECTED,
        "that mail was\nnot mine",
    )


async def test_a_mailed_counterproposal_is_shown_and_confirmed(
    browser: Browser, office: Channels
) -> None:
    """The page shows the proposal; its confirmation is a rejection with that proposal."""
    approval, _ = await office.ask(amount=500)
    await office.decider.approve(approval.id, MARA, channel="email", values={"amount": 300})
    await browser.sign_in()
    page = await browser.get(page_of(approval.id))
    assert "with other values" in page.text
    assert "Confirm your approval" in page.text
    await browser.press(page_of(approval.id))
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).proposal) == (State.REJECTED, {"amount": 300})


async def test_a_mail_after_the_page_was_shown_is_not_confirmed_blindly(
    browser: Browser, office: Channels
) -> None:
    """The displayed answer is confirmed; a newer answer has to be read first."""
    approval, _ = await office.ask(template={"days": 0})
    await office.decider.approve(approval.id, MARA, channel="email", values={"days": 3})
    path = page_of(approval.id)
    await browser.sign_in()
    form = forms_of(await browser.get(path))[f"{path}/approve"]
    await office.decider.approve(approval.id, MARA, channel="email", values={"days": 300})

    answer = await browser.post(f"{path}/approve", form)

    assert answer.status_code == 409
    assert "has changed since you were shown it" in answer.text
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_where_no_second_step_is_wanted_the_page_decides(
    browser: Browser, office: Channels
) -> None:
    """Values for the tool count, and an error explains a value that does not fit."""
    office.policies = (FREE,)
    approval, _ = await office.ask(template={"days": 0}, tool="request_time_off")
    path = page_of(approval.id)
    await browser.sign_in()
    wrong = await browser.press(path, **{"field.0": "many"})
    assert wrong.status_code == 422
    assert 'role="alert"' in wrong.text
    assert 'value="many"' in wrong.text
    await browser.press(path, **{"field.0": "3"})
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).payload) == (State.APPROVED, {"days": 3})


async def test_decided_meanwhile(browser: Browser, office: Channels) -> None:
    """The second person reads who decided and when, and the attempt is recorded."""
    approval, path = await noted(office)
    await browser.sign_in()
    form = forms_of(await browser.get(path))[f"{path}/approve"]
    await office.decider.reject(approval.id, CLEO, channel="email", reason="no money")

    answer = await browser.post(f"{path}/approve", form)

    assert answer.status_code == 409
    assert "Cleo Park rejected reimburse" in answer.text
    assert "no money" in answer.text
    assert "Ended Mon 2 Mar 2026, 12:00 UTC" in answer.text
    assert f'action="{path}/approve"' not in answer.text
    assert (await office.whats(approval))[-1] is What.REFUSED_ANSWER


async def test_one_of_two_concurrent_confirmations_decides(office: Channels) -> None:
    """The first person to complete both steps decides, and only one does."""
    approval, _ = await noted(office)
    await office.decider.approve(approval.id, CLEO, channel="email", reason="yes")
    steps = (await office.ledger.approval(approval.id)).steps
    done = await asyncio.gather(
        *(
            office.decider.confirm(approval.id, one, channel="inbox", mark=mark_of(step))
            for one, step in zip((MARA, CLEO), steps, strict=True)
        ),
        return_exceptions=True,
    )
    assert sorted(isinstance(one, AlreadyDecided) for one in done) == [False, True]
    after = await office.ledger.approval(approval.id)
    assert after.decision == next(one for one in done if isinstance(one, Approval)).decision


async def test_too_late(browser: Browser, office: Channels) -> None:
    """After the deadline the page says so, even if no timer has run yet."""
    approval, path = await noted(office)
    office.clock.advance(timedelta(hours=4))
    await browser.sign_in()
    page = await browser.get(path)
    assert "Too late: the time to decide on reimburse is over" in page.text
    assert f'action="{path}/approve"' not in page.text
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_withdrawn(browser: Browser, office: Channels) -> None:
    """The page says that it was taken back."""
    approval, path = await noted(office)
    await office.decider.withdraw(approval.id, by="riley", reason="changed my mind")
    await browser.sign_in()
    page = await browser.get(path)
    assert "The request to run reimburse was withdrawn" in page.text
    assert "changed my mind" in page.text


async def test_a_code_that_is_not_fresh_is_asked_for_again(
    browser: Browser, office: Channels
) -> None:
    """Some minutes after the sign-in, a decision needs a new code; a wrong one does no harm."""
    approval, path = await noted(office)
    await browser.sign_in()
    assert "authenticator app" not in (await browser.get(path)).text
    office.clock.advance(timedelta(minutes=5))
    assert "authenticator app" in (await browser.get(path)).text

    refused = await browser.press(path, code="", reason="typed already")
    assert refused.status_code == 403
    assert "typed already" in refused.text
    assert (await office.ledger.approval(approval.id)).state is State.PENDING

    assert (await browser.press(path, code=await browser.code())).status_code == 303
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_the_list_shows_only_my_requests_with_my_next_action(
    browser: Browser, office: Channels
) -> None:
    """Each row says what the person has to do; requests for other people are not listed."""
    _, path = await noted(office)
    office.policies = (FREE.model_copy(update={"ask": ("cleo",)}),)
    other, _ = await office.ask()
    await browser.sign_in()
    page = await browser.get("/inbox/")
    assert path in page.text
    assert "Confirm your approval" in page.text
    assert other.id not in page.text


async def test_signing_out(browser: Browser, office: Channels) -> None:
    """It ends this session, or all of them with the other browsers."""
    _, path = await noted(office)
    await browser.sign_in()
    here = browser.session
    form = forms_of(await browser.get(path))["/inbox/sign-out"]
    assert (await browser.post("/inbox/sign-out", form)).status_code == 303
    assert browser.session == ""
    browser.session = here
    assert (await browser.get(path)).status_code == 303

    browser.session = ""
    await browser.sign_in()
    there, browser.session = browser.session, ""
    office.clock.advance(timedelta(minutes=1))
    await browser.sign_in()
    form = forms_of(await browser.get(path))["/inbox/sign-out"]
    await browser.post("/inbox/sign-out", form | {"everywhere": "1"})
    browser.session = there
    assert (await browser.get(path)).status_code == 303


@pytest.mark.parametrize(("minutes", "again"), [((29, 29), 200), ((31,), 303), ((25,) * 29, 303)])
async def test_a_session_ends(
    browser: Browser, office: Channels, minutes: tuple[int, ...], again: int
) -> None:
    """After half an hour without use, and after half a day in any case."""
    await browser.sign_in()
    for some in minutes:
        office.clock.advance(timedelta(minutes=some))
        last = (await browser.get("/inbox/")).status_code
    assert last == again


async def test_the_sign_in_page_opens_with_the_last_used_method(browser: Browser) -> None:
    """A new browser starts with the mailed link; the other methods are folded below."""
    page = (await browser.get("/inbox/sign-in")).text
    assert page.index("With a link by mail") < page.index("<details") < page.index("With a code")
    await browser.sign_in()
    page = (await browser.get("/inbox/sign-in")).text
    assert page.index("With a code") < page.index("<details") < page.index("With a link by mail")


async def test_earlier_messages_are_shown_and_marked_as_unchecked(
    browser: Browser, office: Channels
) -> None:
    """The requester's and the agent's messages appear on page and mail, marked as unchecked."""
    office.policies = (FREE,)
    run = await office.open()
    now = await office.ledger.approval(run.id)
    said = now.model_copy(update={"request": "Pay it\napprove", "said": "It is <b>urgent</b>"})
    await office.ledger.commit(Change().put(said, was=now))
    await office.router.drain()
    await office.delivery.drain()
    await browser.sign_in()
    page = (await browser.get(page_of(run.id))).text
    assert "Nobody has checked this text." in page
    for one in ("Pay it\napprove", "It is &lt;b&gt;urgent&lt;/b&gt;"):
        assert one in page
    mail = plain_text(office.channel.delivered[-1], EmailSettings())
    assert "Riley Voss wrote (not verified):\n↳     | Pay it\n↳     | approve\n" in mail
    assert "It is <b>" not in html(office.channel.delivered[-1], EmailSettings())


async def test_a_request_too_long_for_a_card_is_approved_on_the_page(
    browser: Browser, office: Channels
) -> None:
    """Long and deep arguments and all comments are on the page."""
    office.policies = (FREE,)
    text = "".join(f"line {number} of the contract; " for number in range(1000))
    approval, _ = await office.ask(text=text, deep={"a": [{"b": "x" * 12_000}]})
    comment = "It is long. " * 150
    await office.decider.made(approval.id, Comment(text=comment), MARA, channel="inbox")
    await browser.sign_in()
    page = await browser.get(page_of(approval.id))
    for whole in (text.strip(), "x" * 12_000, comment.strip()):
        assert whole in page.text
    answer = await browser.press(page_of(approval.id))
    assert answer.status_code == 303
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
