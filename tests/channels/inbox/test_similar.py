"""A person's earlier decisions: on their cards, on the page and in the form of a grant."""

from __future__ import annotations

from datetime import timedelta

import pytest

from browser import Browser, forms_of
from builders import CLEO, MARA
from channels.conftest import Channels
from channels.inbox.crowd import PLAIN, enter, send
from signoff.broker.grants import Grants
from signoff.broker.ledger.rebuild import rebuild
from signoff.broker.similar import count_similar, latest_similar
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.lists.similar import Similar
from signoff.core.policies.policy import GrantRules

RULES = GrantRules(who=("mara",), longest=timedelta(hours=8), vary=("amount",))


@pytest.fixture
async def office(office: Channels) -> Channels:
    """Return an office in which Mara has approved two reimbursements and rejected a large one."""
    office.policies = (PLAIN.model_copy(update={"grants": RULES}),)
    for amount in (20, 240):
        one, _ = await office.ask(amount=amount)
        await office.decider.approve(one.id, MARA, channel="email")
    large, _ = await office.ask(amount=4000)
    await office.decider.reject(large.id, MARA, channel="email", reason="too much")
    return office


async def test_similar_decisions_are_counted_per_person(office: Channels) -> None:
    """The decision's commit counts them, a rebuild restores them, and each person has their own."""
    here, _ = await office.ask(amount=50)
    other, _ = await office.ask(tool="book", amount=50)
    wanted = [("mara", here), ("cleo", here), ("mara", other), ("", here)]
    counts = [Similar(2, 1), Similar(), Similar(), Similar()]
    assert await count_similar(office.ledger, wanted) == counts
    said = "You decided 3 requests like this before: 2 approved, 1 rejected."
    cards = [one for one in office.channel.delivered if one.card.approval == here.id]
    assert {one.person: one.card.similar for one in cards} == {"mara": said, "cleo": ""}
    for key in await office.ledger.store.keys("similar:"):
        await office.ledger.store.client.delete(office.ledger.store.prefix + key)
    assert await count_similar(office.ledger, wanted) == [Similar()] * 4
    await rebuild(office.ledger)
    assert await count_similar(office.ledger, wanted) == counts
    amounts = [one.call.args["amount"] for one in await latest_similar(office.ledger, "mara", here)]
    assert sorted(map(str, amounts)) == ["20", "240", "4000"]


async def test_the_page_links_to_the_similar_decisions_of_the_person(
    browser: Browser, office: Channels
) -> None:
    """A sentence links to exactly these; another person's link shows their own, or nothing."""
    here, _ = await office.ask(amount=50)
    await enter(browser, MARA)
    page = await browser.get(page_of(here.id))
    assert "You decided 3 requests like this before: 2 approved, 1 rejected." in page.text
    link = f"/inbox/similar/{here.id}"
    assert link in page.text
    listed = await browser.get(link)
    assert [f"amount: {one}<" in listed.text for one in (20, 240, 4000, 50)] == [True] * 3 + [False]
    assert "3 with the same agent, tool and policy." in listed.text
    await enter(browser, CLEO)
    assert "like this before" not in (await browser.get(page_of(here.id))).text
    assert "You have not decided" in (await browser.get(link)).text
    assert (await browser.get("/inbox/similar/ap_aaaaaaaaaaaaaaaa")).status_code == 404


async def test_a_grant_begins_with_the_bounds_seen(browser: Browser, office: Channels) -> None:
    """The form starts with the bounds of the earlier approvals, and grants what is sent."""
    here, _ = await office.ask(amount=50)
    await enter(browser, MARA)
    page = await browser.get(page_of(here.id))
    assert "It would have covered 2 requests that you approved." in page.text
    form = forms_of(page)[f"{page_of(here.id)}/approve"]
    assert (form["span"], form["uses"], form["most-0"]) == ("", "2", "240")
    for wrong in ({"uses": "x"}, {"uses": "0"}, {"most-0": "a lot"}, {"most-0": "49"}):
        refused = await send(browser, here, "approve", span="4h", **wrong)
        assert refused.status_code == 422, wrong
        assert 'id="span-problem"' in refused.text
        (sent,) = wrong.values()
        assert f'value="{sent}"' in refused.text
    assert (await send(browser, here, "approve", span="4h")).status_code == 303
    grant = await Grants(office.ledger).get("gr_" + here.id.removeprefix("ap_"))
    assert (grant.uses, grant.scope.limits) == (2, ("args.amount >= 0 && args.amount <= 240",))


async def test_an_approval_without_a_time_span_creates_no_grant(
    browser: Browser, office: Channels
) -> None:
    """An approval without a time span gives no grant, whatever else the form contains."""
    here, _ = await office.ask(amount=50)
    await enter(browser, MARA)
    assert (await send(browser, here, "approve", uses="x")).status_code == 303
    assert await office.ledger.store.keys("grant:") == []
