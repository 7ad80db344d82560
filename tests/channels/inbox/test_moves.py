"""Moves on the page that do not decide; each form counts once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

import httpx
import pytest

from browser import ORIGIN, TWO_STEPS, Browser, forms_of
from builders import CLEO, MARA, RILEY, present
from channels.conftest import Channels
from channels.inbox.crowd import MOVES, OLGA, PLAIN, enter, hidden, send
from signoff.broker.ledger.change import Change
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import CommentKind
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Verdict
from signoff.core.policies.policy import GrantRules


async def test_claim_and_release(browser: Browser, office: Channels, asked: Approval) -> None:
    """A claim reserves the decision for one person; the other reads whose it is and until when."""
    await enter(browser, MARA)
    assert (await send(browser, asked, "claim")).status_code == 303
    assert present((await office.ledger.approval(asked.id)).claimed).by == "mara"
    mine = await browser.get(page_of(asked.id))
    assert "Claimed by <strong>Mara Lind</strong>" in mine.text
    await enter(browser, CLEO)
    page = await browser.get(page_of(asked.id))
    assert "Mara Lind has claimed" in page.text
    assert (await send(browser, asked, "approve")).status_code == 409
    assert (await send(browser, asked, "release")).status_code == 409
    await enter(browser, MARA)
    assert (await send(browser, asked, "release")).status_code == 303
    assert (await office.ledger.approval(asked.id)).claimed is None


async def test_a_question_and_its_answer(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """An approver asks the requester on the page, and both read the answer there."""
    await enter(browser, MARA)
    assert (await send(browser, asked, "ask", text="Which team?")).status_code == 303
    await enter(browser, RILEY)
    page = await browser.get(page_of(asked.id))
    assert "A question to you" in page.text
    assert (await send(browser, asked, "answer", text="Sales")).status_code == 303
    await enter(browser, MARA)
    page = await browser.get(page_of(asked.id))
    for words in ("Which team?", "Sales", "Riley Voss"):
        assert words in page.text
    after = await office.ledger.approval(asked.id)
    assert [one.sort for one in after.comments] == [CommentKind.QUESTION, CommentKind.ANSWER]
    assert (await office.events(asked))[-1].more["channel"] == "inbox"


async def test_an_approver_reassigns_their_seat_with_a_reason(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """A person hands over their own seat by address with a reason, which is required."""
    await enter(browser, MARA)
    form = forms_of(await browser.get(page_of(asked.id)))[f"{page_of(asked.id)}/reassign"]
    assert "of" not in form
    refused = await send(browser, asked, "reassign", to="dan@example.com")
    assert refused.status_code == 409
    assert 'value="dan@example.com"' in refused.text
    assert "needs a reason" in refused.text
    for wrong in ("riley", "cleo", "nobody"):
        answer = await send(browser, asked, "reassign", to=wrong, reason="x")
        assert answer.status_code == 409, wrong
    done = await send(browser, asked, "reassign", to="Dan Roe", reason="knows the vendor")
    assert done.status_code == 303
    after = await office.ledger.approval(asked.id)
    assert {one.person for one in after.seats} == {"dan", "cleo"}
    page = await browser.get(page_of(asked.id))
    assert page.status_code == 200
    assert f'action="{page_of(asked.id)}/approve"' not in page.text


async def test_reassigning_needs_the_second_factor_of_an_approval(
    browser: Browser, office: Channels
) -> None:
    """If an approval needs a second factor, a session without one cannot reassign it."""
    office.policies = (TWO_STEPS,)
    approval, _ = await office.ask()
    await enter(browser, MARA)
    office.clock.advance(timedelta(minutes=6))
    page = await browser.get(page_of(approval.id))
    assert 'id="code-reassign"' in page.text
    given = {"to": "dan", "reason": "knows it"}
    assert (await send(browser, approval, "reassign", **given, code="0")).status_code == 403
    assert (await office.ledger.approval(approval.id)).handovers == ()
    code = await browser.code(MARA)
    assert (await send(browser, approval, "reassign", **given, code=code)).status_code == 303
    assert (await office.ledger.approval(approval.id)).handovers[-1].to == "dan"


async def test_nobody_reassigns_the_seat_of_another_person(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """This holds whatever the form contains."""
    await enter(browser, MARA)
    answer = await send(browser, asked, "reassign", of="cleo", to="dan", reason="x")
    assert answer.status_code == 409
    assert (await office.ledger.approval(asked.id)).handovers == ()


@pytest.mark.parametrize("to", ["", "  "])
async def test_an_empty_field_names_nobody(
    browser: Browser, office: Channels, asked: Approval, to: str
) -> None:
    """Not even the only person without a name."""
    nameless = Person(id="zoe", email="zoe@example.com")
    office.directory.become(Directory([*office.directory, nameless]))
    await enter(browser, MARA)
    answer = await send(browser, asked, "reassign", to=to, reason="x")
    assert answer.status_code == 409
    assert "No person is named" in answer.text
    assert (await office.ledger.approval(asked.id)).handovers == ()


async def test_more_time(browser: Browser, office: Channels, asked: Approval) -> None:
    """The deadline moves within the policy's limit, with a reason."""
    await enter(browser, MARA)
    page = await browser.get(page_of(asked.id))
    assert '<option value="4h"' in page.text
    assert '<option value="1d"' not in page.text
    for by in ("9h", "-1h", "soon", "", "1" * 400):
        assert (await send(browser, asked, "extend", by=by, reason="x")).status_code == 409, by
    assert (await send(browser, asked, "extend", by="1h", reason="the offer")).status_code == 303
    after = await office.ledger.approval(asked.id)
    assert after.deadline == present(asked.deadline) + timedelta(hours=1)


async def test_comment_remind_and_withdraw(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """The requester does all three; a reminder is sent once an hour at most."""
    await enter(browser, RILEY)
    assert (await send(browser, asked, "comment", text="as in the offer")).status_code == 303
    assert (await send(browser, asked, "comment", text="  ")).status_code == 409
    assert (await send(browser, asked, "remind")).status_code == 303
    assert (await send(browser, asked, "remind")).status_code == 409
    assert (await send(browser, asked, "withdraw", reason="a mistake")).status_code == 303
    whats = await office.whats(asked)
    assert whats[-5:] == [
        *(What.COMMENTED, What.REFUSED_ANSWER, What.REMINDED, What.REFUSED_ANSWER, What.WITHDRAWN),
    ]
    page = await browser.get(page_of(asked.id))
    assert "was withdrawn" in page.text
    assert "a mistake" in page.text


async def test_the_form_offers_a_grant_if_the_policy_allows_it(
    browser: Browser, office: Channels
) -> None:
    """If the policy allows it, the form offers a grant and gives the selected one."""
    rules = GrantRules(who=("mara",), longest=timedelta(hours=8))
    office.policies = (PLAIN.model_copy(update={"grants": rules}),)
    approval, _ = await office.ask()
    await enter(browser, CLEO)
    assert 'name="span"' not in (await browser.get(page_of(approval.id))).text
    refused = await send(browser, approval, "approve", span="4h")
    assert refused.status_code == 422
    await enter(browser, MARA)
    for span in ("30d", "x", "-4h"):
        wrong = await send(browser, approval, "approve", span=span)
        assert wrong.status_code == 422, span
        assert 'id="span-problem"' in wrong.text
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert (await send(browser, approval, "approve", span="4h")).status_code == 303
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
    assert What.GRANTED in await office.whats(approval)


async def test_a_reason_that_the_policy_wants(browser: Browser, office: Channels) -> None:
    """Without it nothing is decided, and the error is at the field."""
    office.policies = (PLAIN.model_copy(update={"reasons": (Verdict.APPROVE,)}),)
    approval, _ = await office.ask()
    await enter(browser, MARA)
    refused = await send(browser, approval, "approve")
    assert refused.status_code == 422
    assert 'id="reason-problem"' in refused.text
    assert 'aria-describedby="reason-hint reason-problem" aria-invalid="true"' in refused.text
    assert (await send(browser, approval, "approve", reason="fine")).status_code == 303


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_double_submission_counts_once(
    browser: Browser, office: Channels, asked: Approval, at_once: bool
) -> None:
    """A double click makes one comment and one decision, and both show the page."""
    await enter(browser, MARA)
    path = page_of(asked.id)
    forms = forms_of(await browser.get(path))
    for move, more in (("comment", {"text": "once"}), ("approve", {})):
        form = forms[f"{path}/{move}"] | more
        sends = [browser.post(f"{path}/{move}", form) for _ in range(2)]
        done = await asyncio.gather(*sends) if at_once else [await one for one in sends]
        assert [one.status_code for one in done] == [303, 303], move
    after = await office.ledger.approval(asked.id)
    assert [one.text for one in after.comments] == ["once"]
    assert after.state is State.APPROVED
    assert What.REFUSED_ANSWER not in await office.whats(asked)


async def test_a_resubmitted_page_with_a_new_comment_adds_it(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """Going back and commenting again makes a second comment."""
    await enter(browser, MARA)
    path = page_of(asked.id)
    form = forms_of(await browser.get(path))[f"{path}/comment"]
    for text in ("one", "two"):
        assert (await browser.post(f"{path}/comment", form | {"text": text})).status_code == 303
    after = await office.ledger.approval(asked.id)
    assert [one.text for one in after.comments] == ["one", "two"]


async def test_every_move_wants_a_form_of_this_page(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """A missing token, another session, another site or another call is refused."""
    await enter(browser, CLEO)
    others = (await hidden(browser, asked))["csrf"]
    await enter(browser, MARA)
    before = await office.ledger.approval(asked.id)
    good = await hidden(browser, asked) | {"text": "x", "reason": "x", "to": "dan", "by": "1h"}
    elsewhere = {"Origin": "https://evil.example"}
    for move in MOVES:
        path = f"{page_of(asked.id)}/{move}"
        for form, headers, status in (
            (good | {"csrf": ""}, {}, 403),
            (good | {"csrf": others}, {}, 403),
            (good, elsewhere, 403),
            (good | {"digest": "0" * 64}, {}, 400),
            (good | {"once": ""}, {}, 400),
            (good | {"once": "\x00" * 16}, {}, 400),
        ):
            answer = await browser.post(path, form, **headers)
            assert answer.status_code == status, (move, form)
        assert (await browser.get(path)).status_code == 405
        nobody = await browser.http.post(path, data=good, headers={"Origin": ORIGIN, "Cookie": ""})
        assert nobody.status_code in {303, 403}, move
    assert await office.ledger.approval(asked.id) == before


async def test_whatever_is_sent_is_answered(browser: Browser, office: Channels) -> None:
    """No form data breaks the page; the seed makes a failure repeatable."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask(template={"days": 0, "day": "2026-11-21", "more": {"a": 1}})
    await enter(browser, MARA)
    texts = [
        *("", " ", "x", "-1", "9" * 500, "\x00", "\u202e", "1e999", "[" * 3000, "NaN", "mara"),
        *("cleo", "dan", "4h", "0s", "inf", "<b>", "🙂" * 400, "2026-02-30", "no", "#reason"),
    ]
    names = ("text", "reason", "to", "of", "by", "span", "mark", "code", "field.0", "field.1")
    random = Random(7)
    base = await hidden(browser, approval)
    for move in MOVES * 8:
        more = {name: random.choice(texts) for name in (*names, "field.2", "field.9")}
        more["once"] = f"{random.getrandbits(64):016x}"
        if random.random() < 0.7:
            more |= {"mark": "", "span": ""}
        answer = await browser.post(f"{page_of(approval.id)}/{move}", base | more)
        assert answer.status_code in {303, 409, 422}, (move, more)


async def test_a_late_comment_or_claim_shows_the_decider(
    browser: Browser, office: Channels, asked: Approval
) -> None:
    """A late comment or claim shows who has decided."""
    await enter(browser, MARA)
    path = page_of(asked.id)
    forms = forms_of(await browser.get(path))
    await office.decider.reject(asked.id, CLEO, channel="email", reason="no money")
    for move in ("comment", "claim", "approve"):
        answer = await browser.post(f"{path}/{move}", forms[f"{path}/{move}"] | {"text": "x"})
        assert answer.status_code == 409, move
        assert "Cleo Park rejected reimburse" in answer.text


async def test_a_permitted_person_breaks_the_glass_with_a_reason(
    browser: Browser, office: Channels, directory: Directory
) -> None:
    """Dan is not asked, but sees the request and runs it with a reason; the page says so."""
    named = PLAIN.model_copy(update={"break_glass": ("dan",)})
    office.policies = (named,)
    asked = (await office.ask())[0]
    await enter(browser, MARA)
    assert "Break the glass" not in (await browser.get(page_of(asked.id))).text
    assert (await send(browser, asked, "glass", reason="now")).status_code == 409
    dan = present(directory.get("dan"))
    await enter(browser, dan)
    assert "Break the glass" in (await browser.get(page_of(asked.id))).text
    assert (await send(browser, asked, "glass", reason="")).status_code in {409, 422}
    assert (await send(browser, asked, "glass", reason="the plane leaves")).status_code == 303
    after = await office.ledger.approval(asked.id)
    assert (after.state, present(after.glass).by) == (State.APPROVED, "dan")
    page = await browser.get(page_of(asked.id))
    assert "Dan Roe broke the glass: the plane leaves" in page.text


async def test_the_form_says_who_needs_a_reason_to_withdraw(
    browser: Browser, asked: Approval
) -> None:
    """The requester may leave it out, and an operator may not."""
    await enter(browser, RILEY)
    assert "Reason (optional)" in withdrawal(await browser.get(page_of(asked.id)))
    await enter(browser, OLGA)
    assert "(optional)" not in withdrawal(await browser.get(page_of(asked.id)))
    assert (await send(browser, asked, "withdraw")).status_code == 422
    assert (await send(browser, asked, "withdraw", reason="a test")).status_code == 303


def withdrawal(page: httpx.Response) -> str:
    """Return the form that withdraws a request."""
    return page.text.partition("/withdraw")[2].partition("</form>")[0]


async def test_comments_are_counted(browser: Browser, asked: Approval) -> None:
    """The sentence about the state is read aloud, so it has to be right."""
    await enter(browser, MARA)
    for count in ("1 comment", "2 comments"):
        await send(browser, asked, "comment", text=count)
        assert f"{count}." in (await browser.get(page_of(asked.id))).text


@pytest.mark.parametrize("record", ["", '{"needs": 999}'], ids=["gone", "newer"])
async def test_a_move_whose_run_cannot_be_read_is_not_made(
    browser: Browser, office: Channels, asked: Approval, record: str
) -> None:
    """The person gets the page that a request without a readable record has, and no error."""
    await enter(browser, MARA)
    form = await hidden(browser, asked)
    run = f"run:{asked.origin.run}"
    (version, _) = present(await office.ledger.raw(run))
    await office.ledger.commit(Change().put_raw(run, record, was=version))
    for move in MOVES:
        answer = await browser.post(f"{page_of(asked.id)}/{move}", form)
        assert answer.status_code == 404
    assert (await office.ledger.approval(asked.id)).version == asked.version
