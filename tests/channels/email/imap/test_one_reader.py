"""One reader per mailbox: the holder of the lease reads, and the others stand by."""

from __future__ import annotations

import asyncio

import pytest

from channels.email.imap.conftest import Box, Log, Reading
from signoff.broker.ledger import lease
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.imap.cursor import lease_key
from signoff.channels.email.imap.reader import MailboxReader


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten heartbeats and attempts, so that leases can be long."""
    sleep, pause = asyncio.sleep, 0.05
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(min(seconds, pause)))
    monkeypatch.setattr(lease, "next_beat_in", lambda *_: pause)


@pytest.mark.usefixtures("short_pauses")
async def test_a_standby_reader_takes_over(
    box: Box, reading: Reading, ledger: Ledger, log: Log
) -> None:
    """A standby is healthy and does not connect; it reads after the first has gone."""
    async with reading(takeover=600):
        standby = MailboxReader(box.settings(takeover=600), ledger)
        await standby.start()
        await log.wait("imap.standby")
        await box.deliver()
        await log.read_up_to(1)
        assert standby.problem == ""
        assert len(log.all("imap.reading")) == 1
    await box.deliver()
    await log.read_up_to(2)
    await standby.stop()
    assert len(log.all("imap.reading")) == 2
    assert len(log.all("mail.stored")) == 2


@pytest.mark.usefixtures("short_pauses")
async def test_a_reader_without_its_lease_stops_immediately(
    box: Box, reading: Reading, ledger: Ledger, log: Log
) -> None:
    """It stops while it waits for mail, because the new holder reads later mail."""
    async with reading(takeover=600, idle=1000) as reader:
        await log.wait("imap.waiting")
        key = ledger.store.prefix + lease_key(f"{box.name}@127.0.0.1/INBOX")
        async with ledger.store.translated_client() as client:
            await client.set(key, "somebody", px=600_000)
        await log.wait("imap.lease_lost")
        await box.deliver()
        await log.wait("imap.standby")
        assert reader.problem == ""
    assert log.all("mail.stored") == []


async def test_a_reader_that_cannot_read_lets_another_try(
    box: Box, reading: Reading, ledger: Ledger, log: Log
) -> None:
    """It gives the lease back before its next attempt, because its machine may be the problem."""
    async with reading(password="wrong", ready="imap.failed", takeover=3600), reading():
        await box.deliver()
        await log.read_up_to(1)


@pytest.mark.parametrize("connected", [True, False])
async def test_stopping_gives_the_lease_back(
    box: Box, reading: Reading, ledger: Ledger, *, connected: bool
) -> None:
    """This holds while it reads or fails; stopping twice does no harm."""
    more = {} if connected else {"password": "wrong", "ready": "imap.failed"}
    async with reading(takeover=3600, **more) as reader:
        await reader.stop()
        await reader.stop()
        assert reader.problem == "it was stopped"
        key = lease_key(f"{box.name}@127.0.0.1/INBOX")
        assert await ledger.take_lease(key, "me", lease=60)
