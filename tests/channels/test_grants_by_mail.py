"""Approving similar calls by mail: "approve and calls like it for 4 hours"."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import CLEO, MARA, present
from channels.conftest import Channels
from signoff.broker.grants import Grants
from signoff.channels.email.outbound.render import html, plain_text
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Message
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.directory.people import Person
from signoff.core.policies.policy import GrantRules, Policy

MAILBOX = "approvals@signoff.example"
SETTINGS = EmailSettings(sender=MAILBOX, mailbox=MAILBOX)
RULES = GrantRules.model_validate(
    {"who": ["mara"], "longest": "8h", "vary": ["amount"], "limit": "args.amount <= 5000"}
)
WISH = "Approve and calls like it for 4 hours, at most 2 times."


@pytest.fixture
def office(channels: Channels) -> Channels:
    """Return the stages; Mara and Cleo are asked, and Mara may give grants."""
    policy = Policy(name="expenses", ask=("mara", "cleo"), grants=RULES)
    channels.policies = (policy,)
    return channels


async def cards(office: Channels, amount: int = 2500) -> tuple[Approval, dict[str, Message]]:
    """Open a request; return it and the sent cards by person."""
    office.channel.delivered.clear()
    opened = await office.open(amount=amount, purpose="conference")
    await office.router.drain()
    await office.delivery.drain()
    return await office.ledger.approval(opened.id), {
        one.person: one for one in office.channel.delivered
    }


async def says(office: Channels, person: Person, token: str, text: str) -> list[Message]:
    """Take in a person's mail, and return the replies to that person."""
    return [one for one in await office.receive(person, token, text) if one.person == person.id]


async def test_grant_by_mail_approves_the_following_calls(office: Channels) -> None:
    """The card and the answer explain the grant, and two more calls run without asking."""
    first, sent = await cards(office)
    for shown in (plain_text(sent["mara"], SETTINGS), html(sent["mara"], SETTINGS)):
        assert "approve and calls like it for 4 hours" in shown
        assert "8h and 20 calls at most; amount may differ" in shown
    assert "calls like it" not in plain_text(sent["cleo"], SETTINGS)

    headlines = [one.headline for one in await says(office, MARA, sent["mara"].token, WISH)]
    assert any(one.startswith("Granted until") for one in headlines)
    assert "Recorded: you approved reimburse" in headlines
    assert (await office.ledger.approval(first.id)).state is State.APPROVED

    done, told = await cards(office, 10)
    assert (done.state, set(told)) == (State.APPROVED, {"mara"})
    assert told["mara"].headline.startswith("First use: a call like reimburse was approved")
    assert "1 is left" in told["mara"].text
    done, told = await cards(office, 5000)
    assert (done.state, set(told)) == (State.APPROVED, {"mara"})
    assert "has approved 2 of 2 calls" in told["mara"].headline
    assert (told["mara"].card.approval, told["mara"].token) == (first.id, "")
    waits, asked = await cards(office)
    assert (waits.state, set(asked)) == (State.PENDING, {"mara", "cleo"})


@pytest.mark.parametrize("which", ["card", "granted", "first use"])
async def test_grant_is_revoked_by_a_mail_answer(office: Channels, which: str) -> None:
    """It may answer the card, the grant or its first use; the next call waits again."""
    wish = "Approve and calls like it for 4 hours, at most 9 times."
    first, sent = await cards(office)
    told = await says(office, MARA, sent["mara"].token, wish)
    tokens = {"card": sent["mara"].token}
    tokens["granted"] = next(one.token for one in told if one.headline.startswith("Granted"))
    _, used = await cards(office, 10)
    tokens["first use"] = used["mara"].token
    assert "revoke" in plain_text(used["mara"], SETTINGS)
    _, none = await cards(office, 20)
    assert none == {}

    (said,) = await says(office, MARA, tokens[which], "Revoke: the conference is over\n\nMara")

    assert said.headline.startswith("Revoked: calls like reimburse are not approved")
    assert "2 of 9" in said.text
    event = next(
        one for one in await office.ledger.history(first.id) if one.what is What.GRANT_REVOKED
    )
    assert (event.by, event.why) == ("mara", "the conference is over")
    assert event.more["channel"] == "email"
    waits, asked = await cards(office, 30)
    assert (waits.state, set(asked)) == (State.PENDING, {"mara", "cleo"})
    (again,) = await says(office, MARA, tokens[which], "revoke")
    assert "is revoked already" in again.text


async def test_the_mail_about_a_grant_has_a_button_to_revoke_it(office: Channels) -> None:
    """The request is decided, so the mail has no other button."""
    _, sent = await cards(office)
    told = await says(office, MARA, sent["mara"].token, WISH)
    page = html(next(one for one in told if one.headline.startswith("Granted")), SETTINGS)
    assert "body=revoke" in page
    assert "body=approve" not in page
    assert "body=reject" not in page


async def test_other_approver_cannot_revoke_the_grant(office: Channels) -> None:
    """Cleo was asked too and is told about the decision; her "revoke" does not count."""
    _, sent = await cards(office)
    await says(office, MARA, sent["mara"].token, WISH)
    await says(office, CLEO, sent["cleo"].token, "revoke")
    await says(office, CLEO, sent["mara"].token, "revoke")
    done, _ = await cards(office, 10)
    assert done.state is State.APPROVED


async def test_audit_records_sender_and_proof_with_the_grant(office: Channels) -> None:
    """The sender and the proof are recorded with the grant, as with an approval."""
    first, sent = await cards(office)
    await says(office, MARA, sent["mara"].token, WISH)
    events = {one.what: one for one in await office.ledger.history(first.id)}
    assert events[What.GRANTED].more["proof"] == events[What.APPROVED].more["proof"]
    assert events[What.GRANTED].more["uses"] == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("approve and calls like it for 9 hours", "8h at most"),
        ("approve and calls like it for 1 hour, up to 30 times", "1 to 20 calls"),
        ("approve and calls like it for a while", "To approve similar calls too"),
        ("approve and calls like it for 4 hours\n\nBut only the hotel.", "I"),
    ],
)
async def test_unclear_or_excessive_grant_gets_a_question_back(
    office: Channels, words: str, why: str
) -> None:
    """Nothing is decided until the person answers the question with a plain yes."""
    first, sent = await cards(office)
    (told,) = await says(office, MARA, sent["mara"].token, words)
    assert told.headline.startswith("Nothing is decided yet")
    assert why in told.text
    assert told.example == "approve"
    assert (await office.ledger.approval(first.id)).state is State.PENDING
    await says(office, MARA, told.token, "approve")
    assert (await office.ledger.approval(first.id)).state is State.APPROVED
    assert await Grants(office.ledger).all() == []


async def test_approver_without_grant_permission_gets_a_message(office: Channels) -> None:
    """Cleo may only approve single calls."""
    first, sent = await cards(office)
    (told,) = await says(office, CLEO, sent["cleo"].token, WISH)
    assert "does not let cleo give grants" in told.text
    assert (await office.ledger.approval(first.id)).state is State.PENDING


async def test_ok_for_three_days_stays_a_question_back(office: Channels) -> None:
    """It may mean days off, so it is neither an approval nor a grant."""
    first, sent = await cards(office)
    (told,) = await says(office, MARA, sent["mara"].token, "ok for 3 days")
    assert told.headline.startswith("Nothing is decided yet")
    assert (await office.ledger.approval(first.id)).state is State.PENDING


async def test_grant_phrase_is_refused_when_the_policy_allows_no_grants(office: Channels) -> None:
    """The phrase is never read as an approval of the single call."""
    office.policies = (Policy(name="expenses", ask=("mara",)),)
    first, sent = await cards(office)
    assert "calls like it" not in plain_text(replace(sent["mara"]), SETTINGS)
    (told,) = await says(office, MARA, sent["mara"].token, "approve, and calls like it for 4 hours")
    assert "lets nobody approve calls in advance" in told.text
    assert (await office.ledger.approval(first.id)).state is State.PENDING


async def test_second_mail_gives_a_grant_only_for_the_own_approval(
    office: Channels,
) -> None:
    """A second mail of the approver gives the grant; one of another approver is too late."""
    first, sent = await cards(office)
    await says(office, MARA, sent["mara"].token, "approve")
    (told,) = await says(office, MARA, sent["mara"].token, WISH)
    assert told.headline.startswith("Granted until")
    second, sent = await cards(office, 9000)
    await says(office, CLEO, sent["cleo"].token, "approve")
    (told,) = await says(office, MARA, sent["mara"].token, WISH)
    assert "Cleo Park" in told.headline
    assert present((await office.ledger.approval(second.id)).decision).by == "cleo"
    assert first.id.removeprefix("ap_") == (
        (await Grants(office.ledger).all())[0].id.removeprefix("gr_")
    )
