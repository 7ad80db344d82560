"""Reading a mailbox of a real Dovecot: everything is stored once, and nothing is lost."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from builders import present
from channels.email.imap.conftest import MAIL, Box, Log, Reading
from dovecot import READ_ONLY, Dovecot, dovecot
from signoff.broker.ledger.audit import entries
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.channels.email.imap.cursor import cursor_key, lease_key
from signoff.channels.email.imap.reader import MailboxReader, pause_after
from signoff.channels.email.inbound.stored import StoredMail, load
from signoff.core.approvals.events import Event


async def stored(ledger: Ledger) -> list[StoredMail]:
    """Return the mails that wait for the intake."""
    items = (await ledger.claim("intake")).items
    found = [await load(ledger, str(item.body["mail"])) for item in items]
    return [one for one in found if one is not None]


async def audit(ledger: Ledger) -> list[Event]:
    """Return all audit entries."""
    return [Event.model_validate_json(text) async for _, text, _ in entries(ledger.store)]


async def test_existing_mail_is_stored_unchanged_and_marked(
    box: Box, reading: Reading, ledger: Ledger, log: Log
) -> None:
    """The mail is stored byte for byte without an envelope, gets the keyword and stays unseen."""
    await box.deliver(token="abc")
    async with reading():
        await log.wait("mail.stored")
        (mail,) = await stored(ledger)
        assert mail.raw.endswith(MAIL)
        assert mail.traced == mail.raw
        assert mail.raw.startswith(b"Return-Path: <mara@x.example>\r\nDelivered-To: ")
        assert (mail.sender, mail.recipients) == (None, ())
        await log.read_up_to(1)
    assert box.flags() == {1: {"$Signoff"}}


async def test_new_mail_is_pushed(box: Box, reading: Reading, ledger: Ledger, log: Log) -> None:
    """During idling the server announces new mail, so the reader does not poll."""
    async with reading(idle=1000) as reader:
        for count in (1, 2, 3):
            await box.deliver()
            await log.wait("mail.stored", count)
        assert reader.problem == ""
    assert len(await stored(ledger)) == 3
    assert len(log.all("imap.reading")) == 1


async def test_idle_is_renewed_on_the_same_connection(box: Box, reading: Reading, log: Log) -> None:
    """It is renewed long before the 29 minutes of RFC 2177, on the same connection."""
    async with reading(idle=0.1):
        await box.deliver()
        await log.wait("mail.stored")
        await box.deliver()
        await log.wait("mail.stored", 2)
    assert len(log.all("imap.reading")) == 1


async def test_a_server_without_idle_is_asked(ledger: Ledger, log: Log) -> None:
    """The server's capabilities decide."""
    with dovecot(capability="IMAP4rev1 LITERAL+") as server:
        box = Box(server, "approvals")
        reader = MailboxReader(box.settings(poll=1), ledger)
        await reader.start()
        assert (await log.wait("imap.reading"))["by"] == "polling"
        await box.deliver()
        await log.wait("mail.stored")
        await reader.stop()
    assert len(await stored(ledger)) == 1


async def test_the_reader_reconnects_after_a_drop_in_idle(
    box: Box, reading: Reading, server: Dovecot, log: Log
) -> None:
    """Mail that arrived meanwhile is read after the reconnection."""
    async with reading() as reader:
        await log.wait("imap.waiting")
        server.cut()
        failed = await log.wait("imap.failed")
        assert failed["level"] == "warning"
        await box.deliver()
        await log.wait("mail.stored")
        assert reader.problem == ""


async def test_a_server_that_is_restarted_is_found_again(
    box: Box, reading: Reading, server: Dovecot, log: Log
) -> None:
    """The outage is logged; each attempt waits about twice as long as the one before."""
    async with reading() as reader:
        server.stop()
        await log.wait("imap.failed", 2)
        assert "cannot be reached" in reader.problem
        first, second = (one["retry_in"] for one in log.all("imap.failed"))
        assert second > first
        server.start()
        await box.deliver()
        await log.wait("mail.stored")
        assert reader.problem == ""


async def test_a_later_reader_continues_at_the_cursor(
    box: Box, reading: Reading, ledger: Ledger, log: Log
) -> None:
    """A later reader does not read old mail again, and reads what arrived meanwhile."""
    await box.deliver()
    async with reading():
        await log.read_up_to(1)
    await box.deliver()
    async with reading():
        await log.read_up_to(2)
    assert log.all("mail.known") == []
    assert len(await stored(ledger)) == 2


@pytest.mark.parametrize("keyword", [True, False])
async def test_renumbered_mail_is_not_stored_twice(
    box: Box, reading: Reading, ledger: Ledger, log: Log, *, keyword: bool
) -> None:
    """After a restore all UIDs are new; the keyword or the bytes identify stored mail."""
    await box.deliver()
    await box.deliver()
    async with reading():
        await log.read_up_to(2)
    if not keyword:
        with box.look() as client:
            client.store("1:*", "-FLAGS", "($Signoff)")
    box.server.renumber(box.name)
    await box.deliver()
    async with reading():
        await log.read_up_to(3)
    assert len(log.all("mail.known")) == (0 if keyword else 2)
    assert len(await stored(ledger)) == 3


async def test_a_crash_before_the_cursor_moves_duplicates_nothing(
    box: Box, reading: Reading, ledger: Ledger, log: Log
) -> None:
    """Without cursor and keyword, the messages are fetched again and recognised by their bytes."""
    await box.deliver()
    async with reading():
        await log.read_up_to(1)
    async with ledger.store.translated_client() as client:
        await client.delete(ledger.store.prefix + cursor_key(present(box.settings().imap).mailbox))
    with box.look() as other:
        other.store("1:*", "-FLAGS", "($Signoff)")
    async with reading():
        await log.wait("mail.known")
    assert len(await stored(ledger)) == 1


async def test_a_mailbox_restored_from_a_backup_is_read(
    box: Box, reading: Reading, ledger: Ledger, log: Log
) -> None:
    """Its next UIDs were given before, to messages that are gone: new mail is read nevertheless."""
    await box.deliver()
    with box.server.restored(box.name):
        for _ in range(3):
            await box.deliver()
        async with reading():
            await log.read_up_to(4)
    await box.deliver()
    async with reading():
        await log.wait("mail.stored", 5)
        await log.wait("imap.waiting", 2)
    assert log.all("imap.numbers_again")[0]["read_up_to"] == 4
    assert set(box.flags()) == {1, 2}
    assert len(await stored(ledger)) == 5


async def test_a_read_only_mailbox_is_read(server: Dovecot, ledger: Ledger, log: Log) -> None:
    """Its messages are stored like those of others, without a keyword."""
    box = Box(server, READ_ONLY)
    reader = MailboxReader(box.settings(), ledger)
    await box.deliver()
    await reader.start()
    await log.read_up_to(1)
    await box.deliver()
    await log.read_up_to(2)
    await reader.stop()
    assert len(await stored(ledger)) == 2
    assert log.all("imap.reading")[0]["keyword"] is False
    assert log.all("imap.failed") == []


async def test_a_message_that_the_server_cannot_read_holds_up_no_other(
    box: Box, ledger: Ledger, log: Log
) -> None:
    """Dovecot disconnects each time; the message is stored as soon as the server can read it."""
    for _ in range(3):
        await box.deliver()
    one = next((box.server.mailbox(box.name) / "new").iterdir())
    one.chmod(0)
    with box.look() as client:
        client.noop()
    reader = MailboxReader(box.settings(), ledger, pause=0.01)
    await reader.start()
    await log.wait("mail.stored", 2)
    await box.deliver()
    await log.wait("mail.stored", 3)
    (moved,) = (box.server.mailbox(box.name) / "cur").glob(f"{one.name}*")
    moved.chmod(0o600)
    await log.read_up_to(4)
    await reader.stop()
    assert len(await stored(ledger)) == 4
    assert log.all("imap.passed_over") == []
    assert set(map(frozenset, box.flags().values())) == {frozenset({"$Signoff"})}


async def test_an_oversized_mail_is_recorded_and_skipped(
    box: Box, reading: Reading, ledger: Ledger, log: Log
) -> None:
    """Its header is stored; the audit says so once, it gets the keyword, and the next is stored."""
    await box.deliver(MAIL + b"x" * 70 + b"\r\n" + (b"y" * 70 + b"\r\n") * 20_000)
    await box.deliver()
    async with reading():
        await log.read_up_to(2)
    (noted,) = await audit(ledger)
    assert "no more than 1048576 are read" in noted.why
    assert noted.more["uid"] == 1
    # Both may be stored in the same millisecond, and come in another order.
    found = {(one.is_cut, b"approve" in one.raw) for one in await stored(ledger)}
    assert found == {(True, False), (False, True)}
    assert box.flags()[1] == {"$Signoff"}


async def test_old_mail_is_not_read(box: Box, reading: Reading, ledger: Ledger, log: Log) -> None:
    """In a mailbox with a history, only recent mail is read, now and later."""
    with box.look() as client:
        client.append("INBOX", "", '"01-Jan-2020 00:00:00 +0000"', MAIL)
    await box.deliver()
    async with reading():
        await log.wait("mail.stored")
        with box.look() as client:
            client.append("INBOX", "", '"02-Jan-2020 00:00:00 +0000"', MAIL)
        await box.deliver()
        await log.wait("mail.stored", 2)
    assert len(await stored(ledger)) == 2
    assert set(box.flags()) == {1, 2, 3, 4}
    assert box.flags()[1] == set()


async def test_another_folder(box: Box, reading: Reading, ledger: Ledger, log: Log) -> None:
    """A folder with a name beyond ASCII is read; a missing folder is reported."""
    with box.look() as client:
        client.create('"Genehmigt &ANw-ber"')
        client.append('"Genehmigt &ANw-ber"', None, None, MAIL)
    async with reading(folder="Genehmigt Über"):
        await log.wait("mail.stored")
    async with reading(folder="Nowhere", ready="imap.failed") as reader:
        assert "does not open the folder 'Nowhere'" in reader.problem
    assert log.all("imap.failed")[-1]["level"] == "error"


async def test_mail_received_without_redis_is_stored_later(
    box: Box, log: Log, tmp_path: Path
) -> None:
    """It stays in the mailbox, unmarked, until it can be stored."""
    with EmbeddedRedis(tmp_path, fsync="always") as redis:
        ledger = Ledger(Store.open(redis.url))
        reader = MailboxReader(box.settings(takeover=1), ledger)
        await reader.start()
        await log.wait("imap.reading")
        redis.stop()
        await box.deliver()
        await log.wait("imap.failed")
        assert box.flags() == {1: set()}
        redis.start()
        await log.wait("mail.stored")
        await reader.stop()
        assert len(await stored(ledger)) == 1
        await ledger.close()


async def test_the_cursor_is_readable(box: Box, reading: Reading, ledger: Ledger, log: Log) -> None:
    """An operator sees in Redis how far the reader came, and whether a reader is active."""
    await box.deliver()
    before = await ledger.now()
    async with reading():
        await log.read_up_to(1)
    mailbox = f"{box.name}@127.0.0.1/INBOX"
    found = await ledger.raw(cursor_key(mailbox))
    assert found is not None
    record = json.loads(found[1])
    assert record["uid"] == 1
    # It may be midnight.
    days = {str((one - timedelta(days=5)).date()) for one in (before, await ledger.now())}
    assert record["since"] in days
    assert await ledger.take_lease(lease_key(mailbox), "me", lease=1)


@pytest.mark.parametrize(("refused", "shortest", "longest"), [(False, 1, 300), (True, 15, 900)])
def test_pauses_grow_up_to_a_limit(*, refused: bool, shortest: float, longest: float) -> None:
    """Each is twice as long, give or take a third, so that concurrent failures spread out."""
    pauses = [pause_after(failures, refused=refused) for failures in range(40)]
    for number, pause in enumerate(pauses):
        usual = min(shortest * 2**number, longest)
        assert 0.7 * usual <= pause <= 1.3 * usual
    assert len(set(pauses)) > 20
