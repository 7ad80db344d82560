"""A mail is processed once however often it arrives, and different mails stay different."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.conftest import Channels
from channels.test_intake import reply, take
from signoff.broker import stages
from signoff.channels.email.inbound.duplicates import identity
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.parsing.reading import read_mail
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What

TRACE = (
    b"Received: from mx.example by a.example; Sat, 1 Aug 2026 10:00:00 +0000\r\n",
    b"Return-Path: <mara@example.com>\r\n",
    b"Delivered-To: approvals@signoff.example\r\n",
    b"X-Original-To: approvals@signoff.example\r\n",
    b"Authentication-Results: a.example; dkim=pass header.d=example.com\r\n",
    b"ARC-Seal: i=1; a=rsa-sha256; cv=none; d=a.example; b=AAAA\r\n",
    b"X-Spam-Score: 0.1\r\n",
)
DATE = "Sat, 01 Aug 2026 10:00:00 +0000"


def crlf(raw: bytes) -> bytes:
    """Return a mail with the line ends of the wire."""
    return raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


async def test_identical_mail_bytes_are_processed_once(channels: Channels) -> None:
    """A mail that arrives twice is recognised by its bytes, even after it was processed."""
    approval, token = await channels.ask()
    raw = reply(token, "banana")
    assert await store(channels.ledger, raw, sender="mara@example.com", recipients=[])
    assert not await store(channels.ledger, raw, sender="mara@example.com", recipients=[])
    await channels.intake.drain()
    assert not await store(channels.ledger, raw, sender="mara@example.com", recipients=[])
    assert await channels.intake.drain() == 0
    assert (await channels.whats(approval)).count(What.NOT_UNDERSTOOD) == 1


@given(first=st.sets(st.sampled_from(TRACE)), second=st.sets(st.sampled_from(TRACE)))
def test_trace_fields_and_line_ends_do_not_change_mail_identity(
    first: set[bytes], second: set[bytes]
) -> None:
    """Copies that differ only in trace fields and line ends are the same mail."""
    raw = reply("a" * 26, "approve\n\n> quoted\n", Date=DATE)
    one, two = (
        read_mail(b"".join(first) + crlf(raw)),
        read_mail(b"".join(second).replace(b"\r", b"") + raw),
    )
    assert identity(one, judged=["x"], copy="1") == identity(two, judged=["x"], copy="2")


@pytest.mark.parametrize(
    "other",
    [
        {"text": "reject"},
        {"Message_ID": "<other@mail.example>"},
        {"Date": "Sat, 01 Aug 2026 10:00:01 +0000"},
        {"sender": "cleo@example.com"},
        {"sender": "Mara Lind <mara@example.com>, cleo@example.com"},
        {"Subject": "Re: another"},
        {"Auto_Submitted": "auto-replied"},
        {"Precedence": "bulk"},
        {"judged": ["unproven"]},
    ],
    ids=str,
)
def test_mail_identity_covers_every_part_with_an_effect(
    other: dict[str, str] | dict[str, list[str]],
) -> None:
    """No part that can make a mail count or not can change unnoticed."""
    judged = other.pop("judged", ["proven"])
    raw = reply("a" * 26, "approve", Date=DATE)
    changed = reply("a" * 26, **({"text": "approve", "Date": DATE} | other))
    before = identity(read_mail(raw), judged=["proven"], copy="1")
    assert before != identity(read_mail(changed), judged=judged, copy="1")


def test_mail_without_message_id_and_date_is_known_by_its_copy_only() -> None:
    """Without Message-ID and Date, two mails with the same text are different mails."""
    bare = read_mail(b"From: mara@example.com\r\n\r\nbanana\r\n")
    assert identity(bare, judged=[], copy="1") != identity(bare, judged=[], copy="2")
    assert identity(bare, judged=[], copy="1") == identity(bare, judged=[], copy="1")


async def test_copies_by_several_paths_are_processed_once(channels: Channels) -> None:
    """By SMTP with the envelope's recipients, and from a mailbox with other trace fields."""
    approval, token = await channels.ask()
    raw = reply(token, "banana", Date=DATE)
    to = [f"approvals+{token}@signoff.example"]
    told = await take(channels, TRACE[0] + crlf(raw), recipients=to)
    assert len(told) == 1
    for copy in (b"".join(TRACE) + crlf(raw), raw, TRACE[4] + TRACE[0] + crlf(raw)):
        assert await take(channels, copy) == []
    assert (await channels.whats(approval)).count(What.NOT_UNDERSTOOD) == 1


async def test_concurrent_copies_are_processed_once(channels: Channels) -> None:
    """If two processes take two copies at the same time, one copy is processed."""
    approval, token = await channels.ask()
    for top in TRACE[:4]:
        await store(
            channels.ledger,
            top + crlf(reply(token, "banana", Date=DATE)),
            sender="mara@example.com",
            recipients=[],
        )
    claim = await channels.ledger.claim(stages.INTAKE)
    await asyncio.gather(*(channels.intake.work([item]) for item in claim.items))
    assert (await channels.whats(approval)).count(What.NOT_UNDERSTOOD) == 1


async def test_a_mail_sent_ahead_does_not_suppress_the_answer(channels: Channels) -> None:
    """A copy that does not count does not mark the real answer as processed."""
    approval, token = await channels.ask()
    other, other_token = await channels.ask(purpose="other")
    raw = crlf(reply(token, "approve", Date=DATE))
    elsewhere = raw.replace(token.encode(), other_token.encode())
    robot, stranger = b"Auto-Submitted: auto-replied\r\n", b"From: x@evil.example\r\n"
    await take(channels, robot + raw)
    await take(channels, stranger + raw)
    await take(channels, raw, sender="")
    await take(channels, raw.replace(b"approve", b"banana"))
    await take(channels, elsewhere, recipients=[f"approvals+{token}@signoff.example"])
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    await take(channels, raw)
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
    assert (await channels.ledger.approval(other.id)).state is State.PENDING


async def test_two_mails_with_the_same_text_are_different_mails(channels: Channels) -> None:
    """A second mail with the same text is a mail of its own."""
    approval, token = await channels.ask()
    for n in range(2):
        await take(channels, reply(token, "banana", Date=DATE, Message_ID=f"<{n}@mail.example>"))
    assert (await channels.whats(approval)).count(What.NOT_UNDERSTOOD) == 2
