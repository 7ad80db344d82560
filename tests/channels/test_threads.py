"""An answer counts only if it answers a mail that the person got."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from email.message import EmailMessage

import pytest

from builders import MARA, RILEY, present
from channels.conftest import Channels
from channels.test_automatic import report
from channels.test_who_wrote_it import COMPANY, answer, intake_of, take
from channels.writing import subject_of
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.message_ids import (
    MessageKey,
    approval_named,
    is_caused_by,
    is_ours,
    is_without_code,
    message_id,
)
from signoff.channels.email.outbound.render import render
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Delivered, Kind, Message
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from zone import Zone, serving

MAILBOX = "approvals@signoff.example"
SETTINGS = EmailSettings(sender=MAILBOX, mailbox=MAILBOX)
LUNCH = "Re: Lunch at noon?"


def own_id(message: Message) -> str:
    """Return a message's Message-ID as an email."""
    return str(render(message, SETTINGS)["Message-ID"])


def old_id(cause: str, approval: str) -> str:
    """Return the last version's Message-ID for a cause."""
    short = base64.b32encode(hashlib.sha256(cause.encode()).digest()[:16]).decode()
    return f"<signoff.{short.rstrip('=').lower()}.{approval}@signoff.example>"


@pytest.fixture
def office(channels: Channels) -> Channels:
    """Return the stages, with the Message-IDs of real mails as receipts."""
    channels.channel.respond = lambda message: Delivered(own_id(message))
    return channels


Says = Callable[..., Awaitable[Mapping[str, Message]]]


@pytest.fixture
async def says(office: Channels) -> AsyncIterator[Says]:
    """Return a function that takes in a mail signed by Mara's domain and returns the replies."""
    async with serving(Zone()) as zone:
        zone.publish(COMPANY)
        intake = intake_of(office, zone)

        async def signed(token: str, text: str = "yes", **headers: str) -> Mapping[str, Message]:
            fields = ("from", "to", "subject", "date", "message-id", "content-type", "references")
            raw = answer(token, text, **{k.replace("_", "-"): v for k, v in headers.items()})
            return await take(office, COMPANY.sign(raw, fields=fields), intake=intake)

        yield signed


def card_of(office: Channels, approval: Approval) -> EmailMessage:
    """Return the mail of a card."""
    return render(present(office.channel.find(approval.id)), SETTINGS)


async def test_a_yes_to_another_mail_is_asked_back(office: Channels, says: Says) -> None:
    """Mallory asks about lunch with the card's Reply-To, and Mara signs her own yes."""
    approval, token = await office.ask()

    told = await says(token, Subject=LUNCH, In_Reply_To="<lunch@evil.example>")

    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert told["mara"].headline.startswith("Nothing is decided yet")
    assert "does not answer the mail about this request" in told["mara"].text
    assert told["mara"].token == token
    assert (await office.whats(approval))[-1] is What.NOT_UNDERSTOOD

    ours = own_id(told["mara"])
    await says(token, In_Reply_To=ours, Message_ID="<2@mail.example>")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


FOREIGN = {
    "no thread and no tag": {"Subject": LUNCH},
    "no thread and no subject": {"Subject": ""},
    "a title without the tag": {"Subject": "Re: Approval needed"},
    "the card's subject on a mail of somebody else": {"In_Reply_To": "<lunch@evil.example>"},
    "a thread that only began with the card": {
        "In_Reply_To": "<lunch@evil.example>",
        "References": "{card} <lunch@evil.example>",
    },
    "a thread without In-Reply-To": {"References": "{card} <lunch@evil.example>"},
    "a mail under the card's own Message-ID": {"Subject": LUNCH, "In_Reply_To": "{card}"},
    "the card of another request": {"In_Reply_To": "{other}"},
    "the tag of another request": {"Subject": "Re: Approval needed: reimburse #{tag}"},
    "a Message-ID that looks like ours": {
        "In_Reply_To": "<signoff.aaaaaaaaaaaaaaaaaaaaaaaaaa.{approval}@signoff.example>"
    },
    "one with a code": {
        "In_Reply_To": "<signoff.{a}.{a}.{approval}@signoff.example>",
    },
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize(
    "text",
    [
        *("yes", "forward to cleo: x"),
        *(pytest.param(one, marks=pytest.mark.soak) for one in ("no", "claim", "comment: hello")),
    ],
)
async def test_answer_to_another_mail_makes_no_move(
    office: Channels, says: Says, headers: dict[str, str], text: str
) -> None:
    """It does not approve, reject or make any other move."""
    other, _ = await office.ask()
    approval, token = await office.ask()
    card = card_of(office, approval)["Message-ID"]
    parts = {
        "card": card,
        "other": card_of(office, other)["Message-ID"],
        "tag": other.id[-4:],
        "approval": approval.id,
        "a": "a" * 26,
    }
    await says(token, text, **{name: value.format(**parts) for name, value in headers.items()})
    after = await office.ledger.approval(approval.id)
    assert after.state is State.PENDING
    assert (after.claimed, after.comments, after.handovers) == (None, (), ())


OURS = {
    "the card": {"In_Reply_To": "{card}", "References": "{card}"},
    "under another casing": {"Subject": "AW: APPROVAL NEEDED: reimburse #{TAG}"},
    "without References": {"In_Reply_To": "{card}"},
    "without In-Reply-To": {"References": "{card}"},
    "without a subject": {"Subject": "", "In_Reply_To": "{card}"},
    "with the subject alone": {},
    "with a prefix of the company": {"Subject": "[EXT] Re: [2] Approval needed: reimburse #{tag}"},
    "with a subject that was cut": {
        "Subject": "Re: Approval needed: reimb",
        "In_Reply_To": "{card}",
    },
}


@pytest.mark.parametrize("headers", OURS.values(), ids=OURS)
async def test_replies_of_common_mail_programs_are_matched(
    office: Channels, says: Says, headers: dict[str, str]
) -> None:
    """They keep the thread or drop it, and change the subject a little."""
    approval, token = await office.ask()
    tag = approval.id[-4:]
    parts = {"card": card_of(office, approval)["Message-ID"], "tag": tag, "TAG": tag.upper()}
    await says(token, **{name: value.format(**parts) for name, value in headers.items()})
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_a_button_in_the_mail_has_the_tag(office: Channels, says: Says) -> None:
    """An answer from a `mailto:` button counts without a thread."""
    approval, token = await office.ask()
    card = card_of(office, approval)
    assert subject_of(token).endswith(f"#{approval.id[-4:]}")
    page = present(card.get_body(("html",))).get_content()
    assert f"%23{approval.id[-4:]}" in page


async def test_requester_answer_to_another_mail_makes_no_move(office: Channels) -> None:
    """Their token can withdraw, so an answer to a question about lunch must not."""
    approval, _ = await office.ask()
    await office.decider.made(approval.id, moves.AskBack(text="Which team?"), MARA)
    await office.router.drain()
    await office.delivery.drain()
    question = office.channel.find(approval.id, Kind.QUESTION)
    intake = Intake(office.decider, mailbox=MAILBOX)

    async def riley(**headers: str) -> State:
        raw = answer(present(question).token, "withdraw", sender=RILEY.email, **headers)
        await take(office, raw, intake=intake)
        return (await office.ledger.approval(approval.id)).state

    assert await riley(Subject=LUNCH) is State.PENDING
    ours = own_id(present(question))
    assert await riley(**{"In-Reply-To": ours, "Message-ID": "<2@x.example>"}) is State.WITHDRAWN


async def test_a_relay_may_replace_our_ids(office: Channels) -> None:
    """Answers to its mails are identified by the tag, and by nothing else."""
    intake = Intake(office.decider, mailbox=MAILBOX, rewriting=("amazonses.com",))
    sent = "<0100abc-000000@eu-west-1.amazonses.com>"
    approval, token = await office.ask()
    for number, headers in enumerate(
        (
            {"Subject": LUNCH, "In-Reply-To": sent},
            {"In-Reply-To": "<0100@amazonses.com.evil.example>"},
        )
    ):
        raw = answer(token, **headers, **{"Message-ID": f"<{number}@x.example>"})
        await take(office, raw, intake=intake)
        assert (await office.ledger.approval(approval.id)).state is State.PENDING
    await take(office, answer(token, **{"In-Reply-To": sent}), intake=intake)
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


@pytest.mark.parametrize("cause", ["", "notice:x"], ids=["card", "notice"])
async def test_mails_of_the_last_version_are_answered_too(office: Channels, cause: str) -> None:
    """Their cards and notices have no code; they count while such a card is open."""
    office.channel.respond = lambda message: Delivered(old_id(message.id, message.card.approval))
    approval, token = await office.ask()
    (asked,) = approval.asked
    assert is_without_code(asked.receipt)
    old = old_id(cause, approval.id) if cause else asked.receipt
    await take(office, answer(token, **{"In-Reply-To": old}))
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_forged_bounce_cannot_compute_a_message_id(office: Channels) -> None:
    """A person who knows approval, person and level cannot compute a card's Message-ID."""
    key = MessageKey(office.ledger)
    secret = await key.get()
    office.channel.respond = lambda message: Delivered(
        render(message, SETTINGS, secret)["Message-ID"]
    )
    intake = Intake(office.decider, mailbox=MAILBOX, key=key)
    approval, _ = await office.ask()
    (asked,) = approval.asked
    cause = f"card:{approval.id}:mara"
    forged = [
        message_id(cause, approval.id, "signoff.example"),
        message_id(cause, approval.id, "signoff.example", key=b"guess"),
        asked.receipt.replace(".", "x", 2),
        f"<signoff.{hashlib.sha256(cause.encode()).hexdigest()[:26]}.{approval.id}@signoff.example>",
        old_id(cause, approval.id),
    ]
    for returned in forged:
        await store(office.ledger, report("", returned=returned), sender="", recipients=[MAILBOX])
        await intake.drain()
        await office.router.drain()
        assert (await office.ledger.approval(approval.id)).approvers == {"mara"}

    await store(office.ledger, report("", returned=asked.receipt), sender="", recipients=[MAILBOX])
    await intake.drain()
    await office.router.drain()
    assert "cleo" in (await office.ledger.approval(approval.id)).approvers


async def test_a_bounce_that_is_faster_than_the_note_of_its_card_is_known(office: Channels) -> None:
    """A Message-ID that we made counts even before the card's receipt is recorded."""
    key = MessageKey(office.ledger)
    approval = await office.open()
    await office.router.drain()
    returned = message_id(
        f"card:{approval.id}:mara", approval.id, "signoff.example", key=await key.get()
    )
    await store(office.ledger, report("", returned=returned), sender="", recipients=[MAILBOX])
    await Intake(office.decider, mailbox=MAILBOX, key=key).drain()
    await office.router.drain()
    assert "cleo" in (await office.ledger.approval(approval.id)).approvers


async def test_bounce_of_a_card_of_the_last_version_is_matched(office: Channels) -> None:
    """Its Message-ID has no code; it is found as the receipt of its card."""
    office.channel.respond = lambda message: Delivered(old_id(message.id, message.card.approval))
    approval, _ = await office.ask()
    (asked,) = approval.asked
    assert is_without_code(asked.receipt)
    await store(office.ledger, report("", returned=asked.receipt), sender="", recipients=[MAILBOX])
    await Intake(office.decider, mailbox=MAILBOX, key=MessageKey(office.ledger)).drain()
    await office.router.drain()
    assert "cleo" in (await office.ledger.approval(approval.id)).approvers


async def test_concurrent_processes_share_one_key(ledger: Ledger) -> None:
    """The first message makes the key, even if two come at the same moment."""
    keys = await asyncio.gather(*(MessageKey(ledger).get() for _ in range(8)))
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32
    assert await MessageKey(ledger).get() == keys[0]


def test_code_depends_only_on_key_approval_and_cause() -> None:
    """It is the same each time, and differs for another key, approval or cause."""
    mine = message_id("card:ap_x:mara", "ap_x", "signoff.example", key=b"one")
    assert mine == message_id("card:ap_x:mara", "ap_x", "signoff.example", key=b"one")
    assert mine != message_id("card:ap_x:mara", "ap_x", "signoff.example", key=b"two")
    assert is_ours(mine, "ap_x", key=b"one")
    assert not is_ours(mine, "ap_x", key=b"two")
    assert not is_ours(mine, "ap_y", key=b"one")
    assert not is_ours(mine.replace("ap_x", "ap_y"), "ap_y", key=b"one")
    assert is_caused_by(mine, "card:ap_x:mara", "ap_x", key=b"one")
    assert not is_caused_by(mine, "card:ap_x:cleo", "ap_x", key=b"one")
    assert not is_caused_by(mine, "card:ap_x:mara", "ap_x", key=b"two")
    assert approval_named(mine) == "ap_x"
    assert (is_without_code(old_id("c", "ap_x")), is_without_code(mine)) == (True, False)
    assert not is_ours(old_id("c", "ap_x"), "ap_x", key=b"one")
    for odd in ("", "<>", "<signoff.>", "<signoff.a.b.c.d@x>", "<signoff.é.ü.ap_x@y>", "signoff."):
        assert not is_ours(odd, "ap_x", key=b"")
        assert not is_caused_by(odd, "c", "ap_x", key=b"")
