"""A request by email: it goes out as a real mail, and a real reply decides it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.message import EmailMessage
from functools import partial

import aiosmtplib
import pytest

from builders import present
from channels.conftest import Channels, Sink, SinkFactory
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.outbound.channel import EmailChannel, sent_lines
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.deliver import Delivery
from signoff.core.approvals.approval import State


@dataclass(kw_only=True)
class Office(Channels):
    """The stages, the manager's mailbox, and the server for answers."""

    sink: Sink
    settings: EmailSettings
    server: MailServer

    @property
    def delivery(self) -> Delivery:
        """Return the delivery by mail."""
        channel = EmailChannel(self.settings)
        return Delivery(self.ledger, channel, directory=self.directory, inbox=self.inbox)


@pytest.fixture
async def office(channels: Channels, start_sink: SinkFactory) -> AsyncIterator[Office]:
    """Return the office with a server that accepts mail."""
    sink = await start_sink()
    settings = sink.settings().model_copy(
        update={"inbound": sink.settings().inbound.model_copy(update={"port": 0})}
    )
    server = MailServer(settings, channels.ledger)
    await server.start()
    yield Office(
        ledger=channels.ledger,
        decider=channels.decider,
        directory=channels.directory,
        channel=channels.channel,
        sink=sink,
        settings=settings,
        server=server,
    )
    await server.stop()


async def answer(office: Office, mail: EmailMessage, text: str) -> None:
    """Reply to a mail as a mail program does, and process the reply."""
    sender = mail["To"].addresses[0].addr_spec
    quoted = present(mail.get_body(("plain",))).get_content().replace("\n", "\n> ")
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
    intake = Intake(office.decider, mailbox=office.settings.mailbox, sent_lines=lines)
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
    office: Office, text: str, state: State, reason: str
) -> None:
    """The card arrives, its reply decides, and the outcome arrives in its thread."""
    approval = await office.open()
    await office.router.drain()
    await office.delivery.drain()
    (card,) = office.sink.mails
    assert office.sink.envelopes[0].mail_from == card["Reply-To"]

    await answer(office, card, text)

    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).reason) == (state, reason)
    assert after.asked[0].receipt == card["Message-ID"]
    outcome = office.sink.mails[-1]
    assert outcome["In-Reply-To"] == card["Message-ID"]
    assert outcome["Subject"] == f"Re: {card['Subject']}"
    assert "Recorded: you" in present(outcome.get_body(("plain",))).get_content()


async def test_nonsense_and_then_a_value(office: Office) -> None:
    """An unclear reply gets an answer in its thread, and the reply to that decides."""
    approval = await office.open(template={"approved_days": 0}, tool="request_time_off", days=5)
    await office.router.drain()
    await office.delivery.drain()
    await answer(office, office.sink.mails[0], "banana")

    notice = office.sink.mails[-1]
    assert notice["In-Reply-To"] == "<1@mail.example>"
    assert "approved_days: 3" in present(notice.get_body(("plain",))).get_content()
    assert (await office.ledger.approval(approval.id)).state is State.PENDING

    await answer(office, notice, "approve 3")

    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).payload) == (State.APPROVED, {"approved_days": 3})
