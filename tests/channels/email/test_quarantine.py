"""Unreadable mail: listed, tried again or deleted, and never lost."""

from datetime import timedelta
from typing import Any

import pytest

from channels.conftest import Channels
from channels.test_intake import reply
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.rebuild import rebuild
from signoff.channels.email.inbound import quarantine
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.opening import Read, read_here
from signoff.channels.email.inbound.readers import SentTo
from signoff.channels.email.inbound.stored import mail_key, store
from signoff.channels.email.parsing.reading import IncomingMail
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import Conflict, NotInQuarantine, UnreadableMail
from signoff.testing import VirtualClock


class Stubborn:
    """A reader that fails until it is released."""

    works = False

    async def __call__(self, raw: bytes, sent_to: SentTo, /) -> IncomingMail:
        """Read a mail, or fail."""
        if not self.works:
            raise UnreadableMail("It came for approvals+" + "a" * 26 + "@signoff.example.")
        return await read_here(raw, sent_to)


async def take_in(channels: Channels, raw: bytes, read: Read, **envelope: Any) -> None:
    """Store a mail and run the intake."""
    await store(channels.ledger, raw, **({"sender": None, "recipients": []} | envelope))
    await Intake(channels.decider, mailbox="approvals@signoff.example", read=read).drain()


async def audited(ledger: Ledger) -> list[Event]:
    """Return the audit entries about mails."""
    from signoff.broker.ledger import audit

    events = [Event.model_validate_json(text) async for _, text, _ in audit.entries(ledger.store)]
    return [one for one in events if "mail" in one.more]


async def test_a_quarantined_mail_decides_after_a_retry(channels: Channels) -> None:
    """After its reader works, the mail decides; the audit has both attempts."""
    approval, token = await channels.ask()
    read, raw = Stubborn(), reply(token, "approve")
    to = [f"approvals+{token}@signoff.example"]
    await take_in(channels, raw, read, sender="mara@example.com", recipients=to)
    (one,) = await quarantine.list_quarantine(channels.ledger, limit=10)
    assert (one.raw, one.sender, list(one.recipients)) == (raw, "mara@example.com", to)
    assert "a" * 26 not in one.problem
    assert one.at <= await channels.ledger.now()
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING

    read.works = True
    await quarantine.retry(channels.ledger, one, by="ops", why="the reader is mended")
    await Intake(channels.decider, mailbox="approvals@signoff.example", read=read).drain()

    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
    assert await quarantine.in_quarantine(channels.ledger) == []
    first, second = await audited(channels.ledger)
    assert (first.what, second.what) == (What.QUARANTINED, What.MAIL_RETRIED)
    assert (second.by, second.why) == ("ops", "the reader is mended")
    assert first.more == second.more == {"mail": one.id}


async def test_a_mail_that_fails_again_stays_quarantined(channels: Channels) -> None:
    """A mail can be retried any number of times, also after its guard has expired."""
    _, token = await channels.ask()
    read = Stubborn()
    await take_in(channels, reply(token, "approve"), read)
    for _ in range(2):
        (one,) = await quarantine.list_quarantine(channels.ledger, limit=10)
        await quarantine.retry(channels.ledger, one, by="ops", why="once more")
        await Intake(channels.decider, mailbox="approvals@signoff.example", read=read).drain()
        async with channels.ledger.store.translated_client() as client:
            await client.delete(channels.ledger.store.prefix + mail_key(one.id))
        await take_in(channels, reply(token, "approve"), read)
    assert len(await quarantine.in_quarantine(channels.ledger)) == 1
    assert (await channels.ledger.backlog())["intake"] == 0


async def test_a_dropped_mail_is_deleted_with_its_dropper_in_the_audit(channels: Channels) -> None:
    """If two people act on one mail, only one succeeds."""
    _, token = await channels.ask()
    await take_in(channels, reply(token, "approve"), Stubborn())
    (one,) = await quarantine.list_quarantine(channels.ledger, limit=10)
    await quarantine.drop(channels.ledger, one, by="ops", why="a bomb")
    for again in (quarantine.drop, quarantine.retry):
        with pytest.raises(Conflict):
            await again(channels.ledger, one, by="ops", why="")
    assert await quarantine.list_quarantine(channels.ledger, limit=10) == []
    dropped = (await audited(channels.ledger))[-1]
    assert (dropped.what, dropped.by, dropped.why) == (What.MAIL_DROPPED, "ops", "a bomb")


async def test_the_list_begins_with_the_latest(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """It has its own index, without expired mails."""
    channels = still_channels
    _, token = await channels.ask()
    for n in range(3):
        await take_in(channels, reply(token, f"mail {n}"), Stubborn())
        clock.advance(timedelta(seconds=1))
    found = await quarantine.list_quarantine(channels.ledger, limit=10)
    assert [b"mail 2" in found[0].raw, b"mail 0" in found[2].raw] == [True, True]
    assert len(await quarantine.list_quarantine(channels.ledger, limit=2)) == 2
    store_ = channels.ledger.store
    async with store_.translated_client() as client:
        assert await store_.client.pttl(store_.prefix + quarantine.quarantine_key(found[0].id)) > 0
        await client.delete(store_.prefix + quarantine.quarantine_key(found[0].id))
    assert len(await quarantine.in_quarantine(channels.ledger)) == 2
    assert len(await store_.members(quarantine.INDEX)) == 2


async def test_the_quarantine_index_can_be_rebuilt(channels: Channels) -> None:
    """The index is made from the records without strays; an unreadable record is skipped."""
    _, token = await channels.ask()
    for n in range(2):
        await take_in(channels, reply(token, f"mail {n}"), Stubborn())
    before = await channels.ledger.store.client.zrange(
        channels.ledger.store.prefix + quarantine.INDEX, 0, -1, withscores=True
    )
    client, key = channels.ledger.store.client, channels.ledger.store.prefix + quarantine.INDEX
    await client.delete(key)
    await client.zadd(key, {"stray": 1})
    await client.set(channels.ledger.store.prefix + "quarantine:odd", "1 x {}")
    await rebuild(channels.ledger)
    assert await client.zrange(key, 0, -1, withscores=True) == before


async def test_an_id_is_named_by_its_beginning(channels: Channels) -> None:
    """An unambiguous prefix works; otherwise the error says what to do."""
    _, token = await channels.ask()
    await take_in(channels, reply(token, "x"), Stubborn())
    (one,) = await quarantine.list_quarantine(channels.ledger, limit=1)
    assert await quarantine.find(channels.ledger, one.id[:8].upper()) == one
    for wrong in (one.id[:5], "", "f" * 64):
        with pytest.raises(NotInQuarantine, match=r"its id\.|list"):
            await quarantine.find(channels.ledger, wrong)


async def test_the_header_is_shown_undecoded_and_without_tokens(channels: Channels) -> None:
    """Nothing is decoded, and text outside the header is left out."""
    _, token = await channels.ask()
    raw = b"Subject: =?utf-8?q?x?=\r\n" + reply(token, "body", X_Odd="\\")
    await take_in(channels, raw, Stubborn())
    (one,) = await quarantine.list_quarantine(channels.ledger, limit=1)
    assert one.field("Subject") == "=?utf-8?q?x?="
    assert one.field("nothing") == ""
    assert token not in "".join(one.head())
    assert "body" not in "".join(one.head())
