"""Excess mail is deferred if possible and noted once otherwise; other requests are unaffected."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import aiosmtplib
import pytest

from builders import CLEO, MARA
from channels.conftest import Channels
from channels.test_intake import reply
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound import server as mail_server
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.limits import SPAN, Limits
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.settings import EmailSettings, InboundSettings, LimitSettings
from signoff.channels.pipeline.reply_tokens import Holder, issue_token, new_token
from signoff.core.approvals.approval import State
from signoff.core.directory.people import Directory

MAILBOX = "approvals@signoff.example"
FEW = LimitSettings(per_token=3, per_sender=5, unknown_recipients=4)


@pytest.fixture
async def addresses(ledger: Ledger) -> list[str]:
    """Return three addresses with issued tokens."""
    change = Change()
    within = timedelta(hours=1)
    tokens = [
        issue_token(change, Holder(f"ap_{n}", "mara", "email"), within=within) for n in range(3)
    ]
    await ledger.commit(change)
    return [f"approvals+{token}@signoff.example" for token in tokens]


@pytest.fixture
async def server(ledger: Ledger) -> AsyncIterator[MailServer]:
    """Return a mail server with low limits."""
    running = MailServer(
        EmailSettings(mailbox=MAILBOX, inbound=InboundSettings(port=0), limits=FEW),
        ledger,
        Directory([MARA.model_copy(update={"aliases": ("m.lind@example.net",)}), CLEO]),
    )
    await running.start()
    yield running
    await running.stop()


async def send(server: MailServer, address: str, n: int, sender: str = "mara@example.com") -> int:
    """Send a mail and return the reply code."""
    raw = f"From: {sender}\r\nSubject: {n}\r\n\r\nx\r\n"
    try:
        await aiosmtplib.send(
            raw.encode(),
            sender=sender,
            recipients=[address],
            hostname="127.0.0.1",
            port=server.port,
            start_tls=False,
        )
    except aiosmtplib.SMTPRecipientsRefused as error:
        return error.recipients[0].code
    return 250


async def test_mail_to_one_request_is_limited(server: MailServer, addresses: list[str]) -> None:
    """The sender is asked to retry; another request is not affected."""
    codes = [await send(server, addresses[0], n, f"s{n}@example.com") for n in range(5)]
    assert codes == [250, 250, 250, 451, 451]
    assert await send(server, addresses[1], 9) == 250


async def test_strangers_do_not_use_up_the_limit_of_the_approver(
    server: MailServer, addresses: list[str]
) -> None:
    """Mail from an address of the person who was asked is counted separately, and limited too."""
    strangers = [await send(server, addresses[0], n, f"s{n}@example.com") for n in range(4)]
    assert strangers == [250, 250, 250, 451]
    assert await send(server, addresses[0], 5, "Mara@Example.com") == 250
    assert await send(server, addresses[0], 6, "m.lind@example.net") == 250
    assert [await send(server, addresses[0], n) for n in (7, 8)] == [250, 451]
    assert await send(server, addresses[0], 9, "cleo@example.com") == 451


async def test_mail_from_one_sender_is_limited(server: MailServer, addresses: list[str]) -> None:
    """The limit counts all requests together; another sender is not affected."""
    codes = [await send(server, addresses[n % 3], n) for n in range(6)]
    assert codes == [250] * 5 + [451]
    assert await send(server, addresses[2], 9, "cleo@example.com") == 250


async def test_probing_for_recipients_reveals_nothing(
    server: MailServer, addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few, known and unknown ones get one answer; a local mail server is not counted."""
    for n in range(6):
        unknown = f"approvals+{new_token()}@signoff.example"
        assert await send(server, unknown, n) == 550
    assert await send(server, addresses[0], 0) == 250

    monkeypatch.setattr(mail_server, "is_loopback", lambda _: False)
    codes = [await send(server, f"approvals+{new_token()}@signoff.example", n) for n in range(6)]
    assert codes == [550] * 4 + [451] * 2
    assert await send(server, addresses[0], 0) == 451


async def test_the_count_ends_with_its_span(ledger: Ledger) -> None:
    """Redis counts it for all processes, and the count expires by Redis's clock."""
    one, two = Limits(ledger, FEW), Limits(ledger, FEW)
    assert [await limits.allow_recipient("t", "") for limits in (one, two, one, two)] == [
        True,
        True,
        True,
        False,
    ]
    (key,) = await ledger.store.keys("rate:")
    client, name = ledger.store.client, ledger.store.prefix + key
    assert 0 < await client.pttl(name) <= SPAN / timedelta(milliseconds=1)
    await client.pexpire(name, 1)
    while await client.exists(name):  # noqa: ASYNC110 -- no signal announces it
        await asyncio.sleep(0.005)
    assert await one.allow_recipient("t", "")


async def test_noise_beyond_the_limit_causes_no_entry_and_no_mail(channels: Channels) -> None:
    """Beyond the limit, a stranger with a token or a robot causes no entry and no mail."""
    approval, token = await channels.ask()
    limits = Limits(channels.ledger, FEW)
    intake = Intake(channels.decider, mailbox=MAILBOX, limits=limits)
    channels.channel.delivered.clear()
    before = len(await channels.whats(approval))
    for n in range(9):
        headers = {"Auto_Submitted": "auto-replied"} if n % 2 else {}
        raw = reply(token, f"approve {n}", sender="x@evil.example", **headers)
        await store(channels.ledger, raw, sender=None, recipients=[])
    await intake.drain()
    await channels.delivery.drain()
    assert len(await channels.whats(approval)) - before == FEW.per_token
    assert sorted(one.person for one in channels.channel.delivered) == ["mara", "riley"]
    assert (await channels.ledger.backlog())["intake"] == 0

    await store(channels.ledger, reply(token, "approve"), sender=None, recipients=[])
    await intake.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


async def test_mails_without_a_token_are_counted_by_author(channels: Channels) -> None:
    """Unsolicited mail does not fill the audit."""
    from signoff.broker.ledger import audit

    intake = Intake(channels.decider, mailbox=MAILBOX, limits=Limits(channels.ledger, FEW))
    for n in range(9):
        for sender in ("x@evil.example", "y@evil.example"):
            raw = reply("", f"buy {n}", sender=sender)
            await store(channels.ledger, raw, sender=None, recipients=[])
    await intake.drain()
    noted = [text async for _, text, _ in audit.entries(channels.ledger.store)]
    assert len(noted) == 8
    assert sum("too many" in text for text in noted) == 2
