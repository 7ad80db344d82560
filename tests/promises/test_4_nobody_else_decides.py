"""Only the approver decides: no wrong person, forged mail, robot, list or requester."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

from promises.plant import MANAGER, Plant, plant
from signoff.broker.ledger.follow import follow
from signoff.broker.submit import submit
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import State
from signoff.core.base.errors import MailRefused

REQUESTER = "riley@example.com"


def foreign(card: EmailMessage) -> EmailMessage:
    """Return the answer of somebody to whom the card was forwarded."""
    return dev_mailbox.build_reply(card, "approve", "Mallory <mallory@elsewhere.example>")


def from_the_requester(card: EmailMessage) -> EmailMessage:
    """Return the answer of the requester to a card that was forwarded to them."""
    return dev_mailbox.build_reply(card, "approve", REQUESTER)


def with_the_managers_name(card: EmailMessage) -> EmailMessage:
    """Return an answer with the manager's name and another address."""
    return dev_mailbox.build_reply(
        card, "approve", f'"Mara Lind {MANAGER}" <mallory@elsewhere.example>'
    )


def from_two(card: EmailMessage) -> EmailMessage:
    """Return an answer from two addresses, one of them the manager's."""
    mail = dev_mailbox.build_reply(card, "approve", MANAGER)
    del mail["From"]
    mail["From"] = f"{MANAGER}, mallory@elsewhere.example"
    return mail


def with_other_headers(card: EmailMessage) -> EmailMessage:
    """Return an answer that names the manager in every header except From."""
    mail = foreign(card)
    mail["Sender"] = MANAGER
    mail["X-Original-From"] = MANAGER
    return mail


def from_a_look_alike(card: EmailMessage) -> EmailMessage:
    """Return an answer from a domain whose first letter is Cyrillic, in its ASCII form."""
    return dev_mailbox.build_reply(card, "approve", "mara@xn--xample-2of.com")


def out_of_office(card: EmailMessage) -> EmailMessage:
    """Return the mail of an auto-responder with "approve" in its text."""
    mail = dev_mailbox.build_reply(card, "approve", MANAGER)
    mail["Auto-Submitted"] = "auto-replied"
    return mail


def through_a_list(card: EmailMessage) -> EmailMessage:
    """Return an answer that passed through a mailing list."""
    mail = dev_mailbox.build_reply(card, "approve", MANAGER)
    mail["List-Id"] = "<all.example.com>"
    return mail


def only_quoted(card: EmailMessage) -> EmailMessage:
    """Return an empty reply that quotes the card, including its example answers."""
    return dev_mailbox.build_reply(card, "", MANAGER)


def in_the_middle(card: EmailMessage) -> EmailMessage:
    """Return a reply that contains "approve", but not as its command."""
    return dev_mailbox.build_reply(card, "Before I approve this I have to talk to Tom.", MANAGER)


REFUSED = (foreign, from_the_requester, with_the_managers_name, from_two, with_other_headers)
ATTACKS: list[tuple[Callable[[EmailMessage], EmailMessage], set[What]]] = [
    *((attack, {What.REFUSED_ANSWER, What.IGNORED_MAIL}) for attack in REFUSED),
    (from_a_look_alike, {What.REFUSED_ANSWER}),
    (out_of_office, {What.AWAY}),
    (through_a_list, {What.IGNORED_MAIL}),
    (only_quoted, {What.NOT_UNDERSTOOD}),
    (in_the_middle, {What.NOT_UNDERSTOOD}),
]


async def send(here: Plant, mail: EmailMessage) -> None:
    """Hand a mail to the gateway as a mail server does."""
    recipient = str(mail["To"])
    await dev_mailbox.send(mail, host="127.0.0.1", port=here.inbound, recipients=[recipient])


@pytest.mark.soak
@pytest.mark.promise
async def test_no_forged_foreign_or_automatic_mail_decides(tmp_path: Path) -> None:
    """Ten mails by real SMTP do not count; the manager's answer after them does."""
    async with plant(tmp_path, "worker", "channels", "gateway") as here:
        run = await submit(here.parts.ledger, "finance", "Reimburse me $2500", user=REQUESTER)
        card = await here.mailbox.wait_for(lambda mail: "+" in str(mail["Reply-To"]))
        kinds = {What.REFUSED_ANSWER, What.IGNORED_MAIL, What.AWAY, What.NOT_UNDERSTOOD}
        events = follow(here.parts.ledger.store)
        for attack, expected in ATTACKS:
            await send(here, attack(card))
            event = await anext(event async for event in events if event.what in kinds)
            assert event.what in expected, attack.__name__
            (approval,) = await here.parts.ledger.pending()
            assert approval.state is State.PENDING, attack.__name__
        unknown = dev_mailbox.build_reply(card, "approve", MANAGER)
        del unknown["To"]
        unknown["To"] = "approvals+" + "a" * 26 + "@signoff.localhost"
        with pytest.raises(MailRefused, match="550"):
            await send(here, unknown)
        assert here.executions() == {}
        await send(here, dev_mailbox.build_reply(card, "approve", MANAGER))
        ends = await here.ends([run.id])
        assert ends[run.id].what is What.COMPLETED
        to_strangers = [
            mail for mail in here.mailbox.received if MANAGER not in dev_mailbox.recipients_of(mail)
        ]
        assert to_strangers == []
