"""A reason that reads like a condition, beside an approval on the page."""

from __future__ import annotations

from browser import Browser, forms_of
from builders import MARA, present
from channels.conftest import Channels
from channels.inbox.crowd import enter, send
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.text import reason_mark

LIMIT = "only up to 500"


async def test_one_press_confirms_the_same_reason(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """The form comes again with the reason; a later edit is judged again."""
    await enter(browser, MARA)
    page = await send(browser, asked, "approve", reason=LIMIT)
    assert page.status_code == 422
    assert "Approve as it is" in page.text
    assert "Reject with this reason" in page.text
    form = forms_of(page)[f"{page_of(asked.id)}/approve"]
    assert form["reason"].strip() == LIMIT
    assert f'name="as_it_is" value="{reason_mark(LIMIT)}"' in page.text
    assert (await office.ledger.approval(asked.id)).state is State.PENDING

    confirmed = {"as_it_is": reason_mark(LIMIT)}
    path = f"{page_of(asked.id)}/approve"
    other = await browser.post(path, form | confirmed | {"reason": "only up to 300"})
    assert other.status_code == 422
    done = await browser.post(path, form | confirmed | {"reason": LIMIT})
    assert done.status_code == 303
    after = await office.ledger.approval(asked.id)
    assert after.state is State.APPROVED
    assert present(after.decision).reason == LIMIT


async def test_everyday_reason_approves_at_once(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """A page without the new field works as before."""
    await enter(browser, MARA)
    assert (await send(browser, asked, "approve", reason="checked with Anna")).status_code == 303
    assert (await office.ledger.approval(asked.id)).state is State.APPROVED


async def test_mark_of_another_reason_confirms_nothing(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """The form confirms only the reason that was shown as doubtful."""
    await enter(browser, MARA)
    page = await send(browser, asked, "approve", reason="no!", as_it_is="forged")
    assert page.status_code == 422
    assert (await office.ledger.approval(asked.id)).state is State.PENDING


async def test_second_step_confirms_the_same_reason(browser: Browser, office: Channels) -> None:
    """A reason beside *Confirm your approval* is judged as one beside *Approve*."""
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, MARA, channel="email")
    path = page_of(approval.id)
    await browser.sign_in()
    page = await browser.press(path, reason=LIMIT)
    assert page.status_code == 422
    assert f'name="as_it_is" value="{reason_mark(LIMIT)}"' in page.text
    form = forms_of(page)[f"{path}/approve"]
    assert form["mark"]
    assert form["reason"].strip() == LIMIT
    assert (await office.ledger.approval(approval.id)).state is State.PENDING

    confirmed = {"as_it_is": reason_mark(LIMIT)}
    other = await browser.post(f"{path}/approve", form | confirmed | {"reason": "only up to 300"})
    assert other.status_code == 422
    done = await browser.post(f"{path}/approve", form | confirmed)
    assert done.status_code == 303
    after = await office.ledger.approval(approval.id)
    assert after.state is State.APPROVED
    assert (await office.ledger.history(approval.id))[-1].more["as_it_is"] is True
