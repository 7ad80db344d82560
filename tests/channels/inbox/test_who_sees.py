"""Who may see the page of an approval, and which moves it offers them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from browser import Browser
from builders import CLEO, MARA, NOON, RILEY, make_approval, present
from channels.conftest import Channels
from channels.inbox.crowd import ADA, CROWD, DAN, MOVES, OLGA, PLAIN, enter, hidden, send
from signoff.channels.inbox.pages.views import Mode, may, may_see, view
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.collaboration import Operator
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.directory.queues import Pick, Queue
from signoff.core.policies.levels import Level, Seat, Start
from signoff.core.policies.policy import Policy, Terms

HOUR = timedelta(hours=1)


def asked(*people: Person, barred: tuple[str, ...] = (), within: timedelta = 4 * HOUR) -> Approval:
    """Return an approval of Riley's that asks these people, one level each."""
    levels = tuple(Level(ask=(one.id,), within=within) for one in people)
    seats = (Seat(person=people[0].id),)
    start = Start(0, 0, seats, NOON + within)
    terms = Terms(policy="plain", levels=levels)
    return make_approval().ask(terms, (), now=NOON, start=start, barred=barred)[0]


def test_only_participants_operators_and_auditors_see_a_request() -> None:
    """Operators and auditors see it too, and nobody else does."""
    first = asked(MARA, CLEO)
    later = first.escalate(
        Start(1, 0, (Seat(level=1, person="cleo"),), NOON + 8 * HOUR), now=NOON + 4 * HOUR
    )[0]
    given = collaboration.reassign(first, MARA, CROWD, of=MARA, to=DAN, reason="away", now=NOON)[0]
    seen = {
        name: {one.id for one in CROWD if may_see(approval, one, CROWD)}
        for name, approval in (("first", first), ("later", later), ("given", given))
    }
    assert seen == {
        "first": {"mara", "riley", "olga", "ada"},
        "later": {"mara", "cleo", "riley", "olga", "ada"},
        "given": {"mara", "dan", "riley", "olga", "ada"},
    }


def test_other_queue_members_see_a_request_and_cannot_decide_it() -> None:
    """If a queue asks one member in turn, the other members see it; outsiders do not."""
    queue = Queue(name="finance", members=("mara", "dan"), pick=Pick.ROUND_ROBIN)
    crowd = Directory([*CROWD], queues=[queue])
    approval = asked(MARA)
    seats = (Seat(person="mara", via="queue:finance"),)
    approval = approval.model_copy(update={"seats": seats})
    assert may_see(approval, DAN, crowd)
    assert not may_see(approval, CLEO, crowd)
    assert not may(approval, DAN, crowd, NOON).decide


def test_the_page_offers_exactly_the_allowed_actions() -> None:
    """The page offers exactly the allowed moves, and nobody decides their own request."""
    approval = asked(MARA)
    mine, hers, all_of_it, looks = (
        may(approval, one, CROWD, NOON) for one in (MARA, RILEY, OLGA, ADA)
    )
    assert (mine.decide, mine.ask, mine.comment, mine.withdraw) == (True, True, True, False)
    assert [one.id for one in mine.hand_on] == ["mara"]
    assert {one.id for one in mine.to} == {"cleo", "dan", "olga", "ada"}
    assert (hers.decide, hers.withdraw, hers.comment, hers.remind) == (False, True, True, True)
    assert not any((hers.hand_on, hers.extend, hers.ask, hers.claim))
    assert (all_of_it.decide, all_of_it.withdraw, all_of_it.remind) == (False, True, True)
    assert [one.id for one in all_of_it.hand_on] == ["mara"]
    assert all_of_it.extend == 4 * HOUR
    assert looks == type(looks)()


@pytest.mark.parametrize("how", ["requester", "owner"])
def test_an_operator_cannot_manage_their_own_request(how: str) -> None:
    """An operator may not move their own request or that of their own agent."""
    chief = Person(id="chief", email="chief@example.com", roles=(Role.OPERATOR,))
    user = "chief" if how == "requester" else "riley"
    approval = asked(MARA, barred=("chief",) if how == "owner" else ())
    origin = approval.origin.model_copy(update={"user": user})
    approval = approval.model_copy(update={"origin": origin})
    everybody = Directory([*CROWD, chief])
    assert collaboration.acting(approval, chief, everybody) is chief
    assert isinstance(collaboration.acting(approval, OLGA, everybody), Operator)
    allowed = may(approval, chief, everybody, NOON)
    assert not any((allowed.decide, allowed.hand_on, allowed.extend))
    assert allowed.withdraw is (how == "requester")


def test_the_page_explains_why_a_reader_cannot_decide() -> None:
    """The requester and an earlier level read why they cannot decide; an auditor only reads."""
    approval = asked(MARA)
    assert view(approval, MARA, CROWD, NOON).mode is Mode.DECIDE
    hers = view(approval, RILEY, CROWD, NOON)
    assert (hers.mode, hers.why_not) == (
        Mode.WATCH,
        "You requested this, so others decide it.",
    )
    assert view(approval, ADA, CROWD, NOON).why_not == ""
    claimed = asked(MARA).model_copy(update={"seats": (Seat(person="mara"), Seat(person="cleo"))})
    claimed = collaboration.claim(claimed, CLEO, CROWD, now=NOON)[0]
    assert "Cleo Park has claimed" in view(claimed, MARA, CROWD, NOON).why_not


async def test_the_requester_follows_and_never_decides(browser: Browser, office: Channels) -> None:
    """The page has no decision buttons, and a forged form is refused."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask()
    await enter(browser, RILEY)
    page = await browser.get(page_of(approval.id))
    assert "You requested this, so others decide it." in page.text
    assert f'action="{page_of(approval.id)}/approve"' not in page.text
    for move in ("approve", "reject", "claim"):
        answer = await send(browser, approval, move)
        assert answer.status_code == 409, move
        assert "cannot decide it" in answer.text
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_an_outsider_gets_the_response_for_unknown_ids(
    browser: Browser, office: Channels
) -> None:
    """Every route and move gives the same page as an unknown id."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask()
    await enter(browser, DAN)
    answers = set()
    for one in (approval.id, "ap_" + "a" * 16):
        page = await browser.get(page_of(one))
        answers.add((page.status_code, page.text))
        for move in MOVES:
            form = await hidden(browser, approval)
            answer = await browser.post(f"{page_of(one)}/{move}", form | {"to": "dan", "text": "x"})
            answers.add((answer.status_code, answer.text))
    assert len(answers) == 1
    assert next(iter(answers))[0] == 404
    after = await office.ledger.approval(approval.id)
    assert after.version == (await office.ledger.approval(approval.id)).version
    assert after.comments == ()


async def test_an_auditor_sees_everything_and_changes_nothing(
    browser: Browser, office: Channels
) -> None:
    """There are no forms except those of every page, and each forged move is refused."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask()
    await enter(browser, ADA)
    page = await browser.get(page_of(approval.id))
    assert page.status_code == 200
    assert f"{page_of(approval.id)}/" not in page.text
    before = await office.ledger.approval(approval.id)
    more = {"text": "x", "reason": "x", "to": "dan", "of": "mara", "by": "1h"}
    for move in MOVES:
        answer = await send(browser, approval, move, **more)
        assert answer.status_code == 409, (move, answer.text)
    assert await office.ledger.approval(approval.id) == before


async def test_an_operator_manages_open_requests_and_cannot_decide(
    browser: Browser, office: Channels
) -> None:
    """They reassign, extend and withdraw with a reason, but cannot get a seat themselves."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask()
    await enter(browser, OLGA)
    for move in ("approve", "reject"):
        assert (await send(browser, approval, move)).status_code == 409
    taken = await send(browser, approval, "reassign", of="mara", to="olga", reason="I like it")
    assert taken.status_code == 409
    assert "cannot take one of them" in taken.text
    done = await send(browser, approval, "reassign", of="mara", to=DAN.email, reason="on leave")
    assert done.status_code == 303
    assert (await send(browser, approval, "extend", by="1h", reason="wait")).status_code == 303
    after = await office.ledger.approval(approval.id)
    assert (after.handovers[-1].of, after.handovers[-1].to) == ("mara", "dan")
    assert after.deadline == present(approval.deadline) + HOUR
    no_reason = await send(browser, approval, "withdraw")
    assert no_reason.status_code == 422
    assert (await send(browser, approval, "withdraw", reason="a test")).status_code == 303
    events = await office.events(approval)
    assert (events[-1].by, events[-1].why) == ("olga", "a test")
    assert events[-1].more["role"] == "operator"
    assert (await office.ledger.approval(approval.id)).state is State.WITHDRAWN


async def test_an_operator_who_is_an_approver_can_decide(
    browser: Browser, office: Channels
) -> None:
    """Their approval counts like any other; a decision cannot be withdrawn."""
    office.policies = (PLAIN.model_copy(update={"ask": ("olga",)}),)
    approval, _ = await office.ask()
    await enter(browser, OLGA)
    late = {"reason": "late"} | await hidden(browser, approval)
    assert (await send(browser, approval, "approve")).status_code == 303
    assert "role" not in (await office.events(approval))[-1].more
    answer = await browser.post(f"{page_of(approval.id)}/withdraw", late)
    assert answer.status_code == 409
    assert "Recorded: you approved reimburse" in answer.text
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_an_unrouted_request_can_be_withdrawn(browser: Browser, office: Channels) -> None:
    """Operator and requester see that nobody is asked yet, and both can withdraw it."""
    approval = await office.open()
    for person in (OLGA, RILEY):
        await enter(browser, person)
        page = await browser.get(page_of(approval.id))
        assert page.status_code == 200
        assert "not routed yet" in page.text
        assert f"{page_of(approval.id)}/withdraw" in page.text
    await enter(browser, MARA)
    assert (await browser.get(page_of(approval.id))).status_code == 404


async def test_an_escalated_request_accepts_no_answer_of_the_first_level(
    browser: Browser, office: Channels
) -> None:
    """After an escalation, the page of the first level says so and accepts no answer."""
    office.policies = (
        Policy(
            name="two",
            levels=(Level(ask=("mara",), within="1h"), Level(name="board", ask=("cleo",))),
        ),
    )
    approval, _ = await office.ask()
    office.clock.advance(timedelta(hours=2))
    await enter(browser, MARA)
    page = await browser.get(page_of(approval.id))
    assert "was escalated to board" in page.text
    answer = await send(browser, approval, "approve")
    assert answer.status_code == 409
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
