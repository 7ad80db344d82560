"""The page of an approval: who decides, what comes next, and the outcome."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest

from browser import Browser
from builders import CLEO, MARA, NOON, RILEY, make_approval
from channels.conftest import Channels
from channels.inbox.crowd import ADA, CROWD, DAN, PLAIN, enter, hidden, send
from signoff.broker.ledger.change import Change
from signoff.channels.email.outbound.render import html, plain_text
from signoff.channels.email.settings import EmailSettings
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals import deliveries, moves
from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.events import What
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import OnTimeout, Policy
from signoff.core.simulation.timeline import simulate_rest

HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>"
EVIL = Person(id="evil", name=HTML, email="evil@example.com")


@pytest.fixture
def directory() -> Directory:
    """Return people with roles, and a person whose name is markup."""
    return Directory([*CROWD, EVIL])


LADDER = Policy(
    name="ladder",
    levels=(
        Level(name="team", ask=("mara", "cleo"), within="2h", remind=("1h",), quorum=2),
        Level(name="board", ask=("dan",), within="1h"),
    ),
)


async def opened(office: Channels, said: str) -> Approval:
    """Open, route and deliver an approval after a message of the agent."""
    approval = await office.open()
    now = await office.ledger.approval(approval.id)
    words = Approval.open(
        now.origin, now.call, hint="", template=None, now=now.opened_at, said=said
    )[0].said
    await office.ledger.commit(Change().put(now.model_copy(update={"said": words}), was=now))
    await office.router.drain()
    await office.delivery.drain()
    return await office.ledger.approval(approval.id)


def plain(page: httpx.Response) -> str:
    """Return the words of a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


async def test_the_history_shows_votes_reminders_and_next_levels(
    browser: Browser, office: Channels
) -> None:
    """Votes, awaited people, reminders, the next level and the end, with machine-readable times."""
    office.policies = (LADDER,)
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, CLEO, channel="email", reason="a good price")
    await enter(browser, MARA)
    page = await browser.get(page_of(approval.id))
    words = plain(page)
    assert "Level team · 1 of 2 have approved: Cleo Park" in words
    assert "Cleo Park approved by email, Mon 2 Mar 2026, 12:00 UTC" in words
    assert "a good price" in words
    assert "Mara Lind has not answered yet" in words
    ahead = words[words.index("If nobody answers") :]
    for one in (
        "Mon 2 Mar 2026, 13:00 UTC Reminder to Mara Lind",
        "Mon 2 Mar 2026, 14:00 UTC Escalates to board: Dan Roe",
        "Mon 2 Mar 2026, 15:00 UTC Rejected, because it was not decided in time",
    ):
        assert one in ahead
    assert '<time datetime="2026-03-02T14:00:00Z">Mon 2 Mar 2026, 14:00 UTC</time>' in page.text


async def test_the_history_shows_the_phases_in_order(browser: Browser, office: Channels) -> None:
    """Before the first phase ends, the second is announced; after it, the approver is named."""
    phases = (
        Level(name="team", ask=("mara",), within="2h", phase="team"),
        Level(name="the board", ask=("dan",), within="1h", phase="board"),
    )
    office.policies = (Policy(name="both", levels=phases),)
    approval, _ = await office.ask()
    await enter(browser, MARA)
    words = plain(await browser.get(page_of(approval.id)))
    assert "the board is asked after this phase" in words
    assert (await send(browser, approval, "approve", reason="ours is fine")).status_code == 303
    words = plain(await browser.get(page_of(approval.id)))
    assert "reimburse was approved at your level and now waits for the board" in words
    for one in ("Mara Lind approved by inbox", "ours is fine", "Dan Roe has not answered yet"):
        assert one in words
    assert "Approved; next: the board: Dan Roe" in words
    await enter(browser, DAN)
    assert (await send(browser, approval, "approve")).status_code == 303
    words = plain(await browser.get(page_of(approval.id)))
    assert "Recorded: you approved reimburse" in words
    assert words.count("Answers Mara Lind approved by inbox") == 1
    assert "Dan Roe approved by inbox" in words
    assert (await office.ledger.approval(approval.id)).decided_by == ("mara", "dan")


async def test_an_informed_person_can_only_read_the_request(
    browser: Browser, office: Channels
) -> None:
    """The page names their role, offers no move, and refuses a forged one."""
    office.policies = (PLAIN.model_copy(update={"inform": ("dan",)}),)
    approval, _ = await office.ask()
    await enter(browser, DAN)
    words = plain(await browser.get(page_of(approval.id)))
    assert "You are informed about this request. Others decide it." in words
    assert "Informed: Dan Roe" in words
    assert "Mara Lind by email" not in words
    assert "Approve exactly this" not in words
    assert (await send(browser, approval, "approve")).status_code == 409
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_only_approvers_operators_and_auditors_see_deliveries(
    browser: Browser, office: Channels
) -> None:
    """Operators and auditors see them too; the requester's history leaves them out."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask()
    was = await office.ledger.approval(approval.id)
    lost = deliveries.rewritten(was, "cleo", "email", "lost")
    lost, events = deliveries.undelivered(lost, "mara", "email", "550 no such mailbox", now=NOON)
    await office.ledger.commit(Change().put(lost, was=was).note(events))
    for person in (CLEO, ADA):
        await enter(browser, person)
        words = plain(await browser.get(page_of(approval.id)))
        assert "Mara Lind by email: refused (550 no such mailbox)" in words
        assert "Cleo Park by email: lost" in words
        assert "Not delivered: to Mara Lind by email: 550 no such mailbox" in words
    await enter(browser, RILEY)
    words = plain(await browser.get(page_of(approval.id)))
    assert "550" not in words
    assert "Asked: Mara Lind, Cleo Park" in words


async def test_only_decider_and_requester_read_the_result(
    browser: Browser, office: Channels
) -> None:
    """Decider and requester read the tool's result and the agent's message; others read less."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, MARA, channel="email")
    was, run, _ = await office.ledger.current(approval.id)
    after = was
    for step in (Handoff.STARTED, Handoff.FINISHED, Handoff.RESUMED):
        after = after.hand_on(step, now=NOON, result='{"paid": 2500}')[0]
    done, events = run.completed("I have paid it.", now=NOON)
    await office.ledger.commit(Change().put(after, was=was).put(done, was=run).note(events))
    for person, told in ((MARA, True), (RILEY, True), (ADA, True), (CLEO, False)):
        await enter(browser, person)
        words = plain(await browser.get(page_of(approval.id)))
        assert "The agent has resumed." in words
        assert ("I have paid it." in words) is told, person.id
        assert ("{&#34;paid&#34;: 2500}" in words) is told, person.id


async def test_agent_messages_are_marked_and_long_arguments_shown_in_full(
    browser: Browser, office: Channels
) -> None:
    """The agent's words are marked as such; an argument is shown in full at any length."""
    office.policies = (PLAIN,)
    approval = await opened(office, "I checked \u202ethe budget. " + "x" * 3000)
    await enter(browser, MARA)
    page = await browser.get(page_of(approval.id))
    assert "I checked \\u202ethe budget." in page.text
    assert "Nobody has checked this text" in page.text
    assert len(approval.said) == 2000
    long, _ = await office.ask(text="word " * 50_000)
    page = await browser.get(page_of(long.id))
    assert f"<dd>{'word ' * 50_000}</dd>" in page.text
    assert "more characters" not in page.text


async def test_markup_of_everybody_is_text(browser: Browser, office: Channels) -> None:
    """Agent, reasons, comments, questions, names, delivery errors and results stay text."""
    office.policies = (PLAIN.model_copy(update={"ask": ("mara", "evil"), "name": HTML}),)
    approval = await opened(office, HTML)
    was = await office.ledger.approval(approval.id)
    bad, events = deliveries.undelivered(was, "evil", "email", HTML, now=NOON)
    bad, more = deliveries.away(bad, "mara", "email", HTML, now=NOON)
    await office.ledger.commit(Change().put(bad, was=was).note([*events, *more]))
    await enter(browser, MARA)
    pages = []
    for move, fields in (
        ("comment", {"text": HTML}),
        ("ask", {"text": HTML}),
        ("extend", {"by": "1h", "reason": HTML}),
        ("extend", {"by": HTML, "reason": HTML}),
        ("reassign", {"to": HTML, "reason": HTML}),
        ("approve", {"span": HTML, "reason": HTML}),
        ("claim", {}),
        ("reject", {"reason": HTML, "once": HTML}),
    ):
        pages.append(await send(browser, approval, move, **fields))
        pages.append(await browser.get(page_of(approval.id)))
    await enter(browser, RILEY)
    pages.append(await browser.get(page_of(approval.id)))
    pages.append(await send(browser, approval, "withdraw", reason=HTML))
    pages.append(await browser.get(page_of(approval.id)))
    for page in pages:
        assert "<script" not in page.text.replace('<script src="/inbox/', "")
        assert "<img" not in page.text
    assert "&lt;script&gt;alert(1)" in pages[1].text
    assert (await office.ledger.approval(approval.id)).state is State.WITHDRAWN


@pytest.mark.parametrize("on_timeout", list(OnTimeout))
def test_the_last_step_shows_the_end_of_the_request(on_timeout: OnTimeout) -> None:
    """The last step shows the end and the resulting state, for every kind of end."""
    from builders import ask

    approval = ask(make_approval(), MARA, on_timeout=on_timeout, within=timedelta(hours=1))
    steps, after = simulate_rest(approval, CROWD, now=NOON)
    ends = {OnTimeout.STAY: What.OVERDUE, OnTimeout.REJECT: What.TIMED_OUT}
    assert steps[-1].what is ends.get(on_timeout, What.TIMED_OUT)
    assert (after.state is State.PENDING) is (on_timeout is OnTimeout.STAY)
    assert after.next_due is None or after.state is not State.PENDING
    assert simulate_rest(approval, CROWD, now=NOON, most=0) == ((), approval)


async def test_the_page_of_many_levels_stays_short(browser: Browser, office: Channels) -> None:
    """A policy that repeats its levels often is shown up to a limit, with a note."""
    many = LADDER.model_copy(update={"repeat": 10, "levels": LADDER.levels * 5})
    office.policies = (many,)
    approval, _ = await office.ask()
    await enter(browser, MARA)
    words = plain(await browser.get(page_of(approval.id)))
    assert "and so on, until somebody answers" in words


async def test_live_parts(browser: Browser, office: Channels) -> None:
    """The whole page is updated; beside a half-filled form, only the state and the end."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask()
    await enter(browser, MARA)
    page = await browser.get(page_of(approval.id))
    assert 'data-live-part="#whole"' in page.text
    assert 'id="whole" hx-get=' in page.text
    assert 'id="state" hx-get=' in page.text
    assert 'hx-select-oob="#answer-end,#talk" data-live-beside' in page.text
    assert page.text.count('id="answer-end"') == 1
    wrong = await send(browser, approval, "comment", text=" ")
    assert 'data-live-part="#state"' in wrong.text
    await office.decider.reject(approval.id, CLEO, channel="email", reason="no")
    page = await browser.get(page_of(approval.id))
    assert 'id="whole" hx-get=' in page.text
    assert page.text.count('id="answer-end"') == 1
    assert "Cleo Park rejected reimburse. Ended Mon 2 Mar 2026, 12:00 UTC." in page.text


async def test_a_place_that_was_given_away_is_still_seen(
    browser: Browser, office: Channels
) -> None:
    """The former holder can still see the request, and cannot decide it."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask()
    await office.decider.made(approval.id, moves.Reassign(of=MARA, to=DAN, reason="away"), MARA)
    await enter(browser, MARA)
    page = await browser.get(page_of(approval.id))
    assert "went to Dan Roe, who decides it now" in plain(page)
    form = await hidden(browser, approval)
    assert (await browser.post(f"{page_of(approval.id)}/approve", form)).status_code == 409


async def test_hidden_and_lookalike_characters_are_explained(
    browser: Browser, office: Channels
) -> None:
    """The page and the joint approval explain hidden and lookalike characters."""
    office.policies = (PLAIN.model_copy(update={"batch": True}),)
    approval, _ = await office.ask(to="p\u0430ypal", memo="a\u202eb", city="Москва")
    await enter(browser, MARA)
    for path in (page_of(approval.id), f"/inbox/batch?id={approval.id}"):
        page = await browser.get(path)
        assert "<dd>p\\u0430ypal</dd>" in page.text
        assert "<dd>Москва</dd>" in page.text
        assert "Look closely." in page.text
        assert "“p\\u0430ypal” mixes in Cyrillic letters" in page.text
        assert "right-to-left override" in page.text


async def test_a_question_is_offered_only_to_a_known_requester(
    browser: Browser, office: Channels
) -> None:
    """If Signoff does not know the requester, neither page nor mail offers a question."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask(user="somebody@elsewhere.example")
    await enter(browser, MARA)
    page = await browser.get(page_of(approval.id))
    assert f"{page_of(approval.id)}/ask" not in page.text
    mail = next(one for one in office.channel.delivered if one.card.approval == approval.id)
    assert not mail.card.asks_back
    assert "ask: your question" not in plain_text(mail, EmailSettings())
    assert "ask: your question" not in html(mail, EmailSettings())
    known, _ = await office.ask()
    mail = next(one for one in office.channel.delivered if one.card.approval == known.id)
    assert "ask: your question" in plain_text(mail, EmailSettings())
