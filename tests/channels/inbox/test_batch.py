"""Approving several calls together: only harmless ones, all shown, each decided separately."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Iterable

import pytest
from pydantic import ValidationError

from browser import Browser, forms_of
from builders import CLEO, MARA, present
from channels.conftest import Channels
from signoff.broker.ledger.change import Change
from signoff.channels.inbox.pages.batch import MOST
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Actor
from signoff.core.policies.levels import Verdict
from signoff.core.policies.policy import Fallback, Policy, Terms

SMALL = Policy(name="small", ask=("mara", "cleo"), within="4h", batch=True)
PLAIN = Policy(name="plain", ask=("mara",), within="4h")


@pytest.fixture
async def office(office: Channels) -> Channels:
    """Return an office whose policy calls all requests harmless."""
    office.policies = (SMALL,)
    return office


async def opened(office: Channels, count: int = 3) -> list[Approval]:
    """Open this number of requests."""
    return [(await office.ask(amount=number))[0] for number in range(count)]


def looked_at(approvals: Iterable[Approval]) -> str:
    """Return the address of the page that shows several requests."""
    return "/inbox/batch?" + "&".join(f"id={one.id}" for one in approvals)


async def form(browser: Browser, approvals: Iterable[Approval]) -> dict[str, str]:
    """Return the form of that page."""
    page = await browser.get(looked_at(approvals))
    assert page.status_code == 200
    return forms_of(page)["/inbox/batch"]


async def states(office: Channels, approvals: Iterable[Approval]) -> list[State]:
    """Return the states of the approvals."""
    return [one.state for one in await office.ledger.approvals([one.id for one in approvals])]


async def test_selected_requests_are_reviewed_and_approved_together(
    browser: Browser, office: Channels
) -> None:
    """Boxes in the list, a page that shows each request in full, one button, and the results."""
    found = await opened(office)
    await browser.sign_in()
    page = await browser.get("/inbox/")
    for one in found:
        assert f'name="id" value="{one.id}"' in page.text
    shown = await browser.get(looked_at(found[:2]))
    for one in found[:2]:
        assert one.digest in shown.text
        assert f"<dd>{one.call.args['amount']}</dd>" in shown.text
    assert found[2].digest not in shown.text

    done = await browser.post("/inbox/batch", forms_of(shown)["/inbox/batch"])

    assert "2 of 2 recorded" in done.text
    assert await states(office, found) == [State.APPROVED, State.APPROVED, State.PENDING]
    event = (await office.events(found[0]))[-1]
    assert (event.what, event.by) == (What.APPROVED, "mara")
    assert (event.more["channel"], event.more["batch"]) == ("inbox", True)


async def test_a_request_decided_meanwhile_does_not_block_the_others(
    browser: Browser, office: Channels
) -> None:
    """Its result names the decider, and the attempt is recorded; the others are approved."""
    found = await opened(office)
    await browser.sign_in()
    fields = await form(browser, found)
    await office.decider.reject(found[1].id, CLEO, channel="email", reason="no")

    done = await browser.post("/inbox/batch", fields)

    assert "2 of 3 recorded" in done.text
    assert f"Approval {found[1].id} is already rejected by Cleo Park." in done.text
    assert await states(office, found) == [State.APPROVED, State.REJECTED, State.APPROVED]
    assert (await office.whats(found[1]))[-1] is What.REFUSED_ANSWER


@pytest.mark.parametrize("everybody", [False, True], ids=["one", "all"])
async def test_a_form_that_is_sent_twice_says_that_it_counts(
    browser: Browser, office: Channels, everybody: bool
) -> None:
    """After a double click, a browser shows the second response."""
    quorum = "all" if everybody else 1
    office.policies = (Policy.model_validate({**SMALL.model_dump(), "quorum": quorum}),)
    found = await opened(office, 2)
    await browser.sign_in()
    fields = await form(browser, found)
    answers = await asyncio.gather(*(browser.post("/inbox/batch", fields) for _ in range(2)))
    for answer in (*answers, await browser.post("/inbox/batch", fields)):
        assert "2 of 2 recorded" in answer.text
        assert "Not approved by you" not in answer.text
    assert ("You have already approved it." in answer.text) is not everybody
    state = State.PENDING if everybody else State.APPROVED
    assert await states(office, found) == [state] * 2


async def test_a_forged_form_cannot_batch_approve_a_harmful_request(
    browser: Browser, office: Channels
) -> None:
    """It has no box, the page leaves it out, and a forged form does not decide it."""
    (harmless,) = await opened(office, 1)
    office.policies = (PLAIN,)
    plain, _ = await office.ask(amount=9000)
    await browser.sign_in()
    assert f'value="{plain.id}"' not in (await browser.get("/inbox/")).text
    shown = await browser.get(looked_at([harmless, plain]))
    assert "It must be answered separately" in shown.text
    assert plain.digest not in shown.text
    fields = forms_of(shown)["/inbox/batch"] | {f"digest.{plain.id}": plain.digest}

    done = await browser.post("/inbox/batch", fields)

    assert "1 of 2 recorded" in done.text
    assert "cannot be approved together with others" in done.text
    assert await states(office, [harmless, plain]) == [State.APPROVED, State.PENDING]


async def test_another_call_than_was_shown(browser: Browser, office: Channels) -> None:
    """A wrong digest approves nothing."""
    found = await opened(office, 2)
    await browser.sign_in()
    fields = await form(browser, found)
    fields[f"digest.{found[0].id}"] = "0" * 64
    done = await browser.post("/inbox/batch", fields)
    assert "The call has changed since it was shown" in done.text
    assert await states(office, found) == [State.PENDING, State.APPROVED]


async def test_no_longer_mine(browser: Browser, office: Channels) -> None:
    """A person who is not asked approves nothing and learns nothing."""
    found = await opened(office, 2)
    office.policies = (SMALL.model_copy(update={"ask": ("cleo",)}),)
    other, _ = await office.ask(amount=7)
    await browser.sign_in()
    fields = await form(browser, found) | {f"digest.{other.id}": other.digest}
    fields |= {"digest.ap_aaaaaaaaaaaaaaaa": "0" * 64, "digest.x": "y"}
    await office.decider.made(found[0].id, moves.Claim(), CLEO)

    done = await browser.post("/inbox/batch", fields)

    assert "1 of 5 recorded" in done.text
    assert "Cleo Park has claimed approval" in done.text
    assert done.text.count("There is no such request, or you may not see it.") == 3
    assert await states(office, [*found, other]) == [
        State.PENDING,
        State.APPROVED,
        State.PENDING,
    ]
    assert "reimburse" not in (await browser.get(looked_at([other]))).text


async def test_requests_that_need_more_than_an_approval_are_opened_separately(
    browser: Browser, office: Channels
) -> None:
    """Requests with values, required reasons or by the approver have to be opened separately."""
    filled, _ = await office.ask(template={"days": 0})
    office.policies = (SMALL.model_copy(update={"reasons": (Verdict.APPROVE,)}),)
    reasoned, _ = await office.ask(amount=2)
    office.policies = (SMALL,)
    own, _ = await office.ask(amount=3, user="mara")
    await browser.sign_in()
    assert 'type="checkbox"' not in (await browser.get("/inbox/")).text
    page = await browser.get(looked_at([filled, reasoned, own]))
    assert forms_of(page).keys() == {"/inbox/sign-out"}
    assert "None of them can be approved together" in page.text


@pytest.mark.parametrize(("count", "words"), [(0, "You selected nothing"), (51, "at most 50")])
async def test_an_empty_or_oversized_selection_changes_nothing(
    browser: Browser, count: int, words: str
) -> None:
    """Both cases get a message, and nothing changes."""
    await browser.sign_in()
    ids = [f"ap_{number:016d}" for number in range(count)]
    page = await browser.get("/inbox/batch?" + "&".join(f"id={one}" for one in ids))
    assert page.status_code == 400
    assert words in page.text
    csrf = forms_of(await browser.get("/inbox/"))["/inbox/sign-out"]["csrf"]
    fields = {f"digest.{one}": "0" for one in ids} | {"csrf": csrf}
    page = await browser.post("/inbox/batch", fields)
    assert page.status_code == 400
    assert words in page.text


async def test_the_form_is_of_this_session(browser: Browser, office: Channels) -> None:
    """A form of another session or another site approves nothing."""
    found = await opened(office, 1)
    await browser.sign_in()
    fields = await form(browser, found)
    foreign = {"Sec_Fetch_Site": "cross-site"}
    for wrong, headers in ((fields | {"csrf": "x"}, {}), (fields, foreign)):
        assert (await browser.post("/inbox/batch", wrong, **headers)).status_code == 403
    browser.session = ""
    assert (await browser.post("/inbox/batch", fields)).status_code == 303
    assert await states(office, found) == [State.PENDING]


async def test_a_policy_cannot_be_both_harmless_and_two_step(
    browser: Browser, office: Channels
) -> None:
    """The two settings exclude each other, and the default is never harmless."""
    for more in ({"second_step": "args.amount > 5"}, {"risk": "high"}):
        with pytest.raises(ValidationError, match="batch"):
            Policy(name="p", ask=("mara",), batch=True, **more)
    with pytest.raises(ValidationError):
        Fallback.model_validate({"ask": ("mara",), "batch": True})
    terms = SMALL.terms({"tool": "reimburse"})
    assert terms.batch
    assert Terms.model_validate_json(terms.model_dump_json(exclude_defaults=True)) == terms


async def test_a_batchable_request_can_be_approved_on_its_own_page(
    browser: Browser, office: Channels
) -> None:
    """A request that can be approved with others can also be approved alone."""
    (one,) = await opened(office, 1)
    await browser.sign_in()
    assert (await browser.press(page_of(one.id))).status_code == 303
    assert await states(office, [one]) == [State.APPROVED]
    assert "is already approved" in (await browser.get(looked_at([one]))).text
    assert present((await office.ledger.approval(one.id)).decision).by == MARA.id


async def test_the_batch_page_shows_a_limited_number_of_requests(
    browser: Browser, office: Channels
) -> None:
    """The page shows a limited number in full and says how many are left."""
    found = await opened(office, MOST + 1)
    office.policies = (PLAIN,)
    plain, _ = await office.ask(amount=9000)
    await browser.sign_in()
    assert "/inbox/batch?all=1" in (await browser.get("/inbox/")).text

    shown = await browser.get("/inbox/batch?all=1")

    assert sum(one.digest in shown.text for one in found) == MOST
    assert plain.digest not in shown.text
    assert "1 more can be approved together after these." in shown.text
    await browser.post("/inbox/batch", forms_of(shown)["/inbox/batch"])
    assert sorted(await states(office, found)) == [State.APPROVED] * MOST + [State.PENDING]
    rest = await browser.get("/inbox/batch?all=1")
    assert "more can be approved" not in rest.text
    await browser.post("/inbox/batch", forms_of(rest)["/inbox/batch"])
    assert await states(office, [*found, plain]) == [State.APPROVED] * (MOST + 1) + [State.PENDING]
    assert (await browser.get("/inbox/batch?all=1")).status_code == 400


async def test_a_harmless_call_is_approved_from_the_list(
    browser: Browser, office: Channels
) -> None:
    """Its row shows the whole call, and one button approves exactly that call."""
    (one,) = await opened(office, 1)
    await browser.sign_in()
    page = await browser.get("/inbox/")
    button = f'form="quick" name="digest.{one.id}" value="{one.digest}"'
    assert button in page.text
    form = forms_of(page)["/inbox/batch"] | {f"digest.{one.id}": one.digest}
    done = await browser.post("/inbox/batch", form)
    assert "1 of 1 recorded" in done.text
    assert await states(office, [one]) == [State.APPROVED]


@pytest.mark.parametrize(
    "call",
    [
        {"memo": "x" * 400},
        {"to": "p\u0430ypal"},
        {"memo": "one line\nand another"},
        {"memo": "rent, amount: 1"},
    ],
    ids=["cut", "lookalike", "broken", "pretending"],
)
async def test_a_long_or_flagged_request_cannot_be_approved_from_the_list(
    browser: Browser, office: Channels, call: dict[str, str]
) -> None:
    """If a value is long or has a warning, the request has to be opened first."""
    approval, _ = await office.ask(**call)
    await browser.sign_in()
    page = await browser.get("/inbox/")
    assert f'name="id" value="{approval.id}"' in page.text
    assert f"digest.{approval.id}" not in page.text


async def test_a_request_with_comments_cannot_be_approved_from_the_list(
    browser: Browser, office: Channels
) -> None:
    """The comment is on the page of the request and not in the list."""
    (one,) = await opened(office, 1)
    comment = moves.Comment(text="Wait for the invoice.")
    await office.decider.take(one.id, comment, Actor(CLEO, "inbox"))
    await browser.sign_in()
    assert f"digest.{one.id}" not in (await browser.get("/inbox/")).text


async def test_the_page_of_several_requests_shows_their_comments(
    browser: Browser, office: Channels
) -> None:
    """A colleague may have asked to wait: all comments are shown in full, as text."""
    (one,) = await opened(office, 1)
    text = f"<b>Wait</b> for the invoice. {'It is not here. ' * 100}".strip()
    await office.decider.take(one.id, moves.Comment(text=text), Actor(CLEO, "inbox"))
    await browser.sign_in()
    page = html.unescape((await browser.get(looked_at([one]))).text)
    assert f"<strong>{CLEO.name}</strong>" in page
    assert f'<p class="words">{text}</p>' in page


async def test_an_unreadable_record_does_not_block_the_batch(
    browser: Browser, office: Channels
) -> None:
    """A newer version wrote its run; the later approvals are decided."""
    found = await opened(office, 2)
    await browser.sign_in()
    fields = await form(browser, found)
    run = f"run:{found[0].origin.run}"
    (version, _) = present(await office.ledger.raw(run))
    await office.ledger.commit(Change().put_raw(run, '{"needs": 999}', was=version))
    done = await browser.post("/inbox/batch", fields)
    assert "1 of 2 recorded" in done.text
    assert await states(office, found) == [State.PENDING, State.APPROVED]
