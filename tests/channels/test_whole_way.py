"""The whole way by email: a request goes out as a real mail, and a real reply comes back in."""

from collections.abc import AsyncIterator
from functools import partial

import aiosmtplib
import pytest

from channels.conftest import Channels, SinkFactory
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.outbound.channel import EmailChannel, sent_lines
from signoff.core.approvals.approval import State


@pytest.fixture
async def office(channels: Channels, start_sink: SinkFactory) -> AsyncIterator[Channels]:
    """The stages, the manager's mailbox, and the server that takes the answers."""
    channels.sink = await start_sink()
    channels.settings = channels.sink.settings().model_copy(
        update={"inbound": channels.sink.settings().inbound.model_copy(update={"port": 0})}
    )
    channels.channel = EmailChannel(channels.settings)
    channels.server = MailServer(channels.settings, channels.ledger)
    await channels.server.start()
    yield channels
    await channels.server.stop()


async def answer(office, mail, text) -> None:
    """Send a reply to a mail, as a mail program does, and work through what it causes."""
    sender = mail["To"].addresses[0].addr_spec
    quoted = mail.get_body(("plain",)).get_content().replace("\n", "\n> ")
    raw = (
        f"From: {sender}\r\nTo: {mail['Reply-To']}\r\nSubject: Re: {mail['Subject']}\r\n"
        f"Message-ID: <{len(office.sink.mails)}@mail.example>\r\n"
        f"In-Reply-To: {mail['Message-ID']}\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n\r\n"
        f"On Mon, 2 Mar 2026, Signoff wrote:\r\n> {quoted}\r\n"
    )
    client = aiosmtplib.SMTP(
        hostname="127.0.0.1",
        port=office.server.port,
        local_hostname="mail.example",
        start_tls=False,
    )
    async with client:
        recipient = mail["Reply-To"].addresses[0].addr_spec
        await client.sendmail(sender, [recipient], raw.encode())
    lines = partial(sent_lines, directory=office.directory, settings=office.settings)
    intake = Intake(office.desk, mailbox=office.settings.mailbox, sent_lines=lines)
    await intake.drain()
    await office.delivery.drain()


@pytest.mark.parametrize(
    ("text", "state", "reason"),
    [
        ("approve", State.APPROVED, ""),
        ("reject over budget", State.REJECTED, "over budget"),
    ],
)
async def test_from_the_card_to_the_outcome(
    office: Channels, text: str, state, reason: str
) -> None:
    """The card arrives, its reply decides, and the outcome arrives in the same thread."""
    approval = await office.open()
    await office.router.drain()
    await office.delivery.drain()
    (card,) = office.sink.mails
    assert office.sink.envelopes[0].mail_from == card["Reply-To"]

    await answer(office, card, text)

    after = await office.ledger.approval(approval.id)
    assert (after.state, after.decision.reason) == (state, reason)
    assert after.asked[0].receipt == card["Message-ID"]
    outcome = office.sink.mails[-1]
    assert outcome["In-Reply-To"] == card["Message-ID"]
    assert outcome["Subject"] == f"Re: {card['Subject']}"
    assert "Recorded: you" in outcome.get_body(("plain",)).get_content()


async def test_nonsense_and_then_a_value(office: Channels) -> None:
    """A reply that is not understood is answered below it; the answer to that decides."""
    approval = await office.open(template={"approved_days": 0}, tool="request_time_off", days=5)
    await office.router.drain()
    await office.delivery.drain()
    await answer(office, office.sink.mails[0], "banana")

    notice = office.sink.mails[-1]
    assert notice["In-Reply-To"] == "<1@mail.example>"
    assert "approved_days: 3" in notice.get_body(("plain",)).get_content()
    assert (await office.ledger.approval(approval.id)).state is State.PENDING

    await answer(office, notice, "approve 3")

    after = await office.ledger.approval(approval.id)
    assert (after.state, after.decision.payload) == (State.APPROVED, {"approved_days": 3})
