"""Changes that a signature does not cover make neither a new mail nor another text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from channels.test_who_wrote_it import COMPANY, answer, intake_of, take
from signoff.channels.email.inbound.intake import Intake
from signoff.core.approvals.approval import Approval, State
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Policy
from signoff.testing import VirtualClock
from zone import Signer, Zone, serving

ALSO = Signer("example.com", selector="s2", algorithm="ed25519-sha256")
SIGNED = ("from", "to", "subject", "message-id", "date", "content-type")
LOOSELY = ("from", "to", "subject", "content-type")
DAN = Person(id="dan", email="dan@example.com")
TWO = Policy(name="p", ask=("cleo", "dan", "mara"), quorum=2, veto=False, within="4h")


@pytest.fixture
def directory() -> Directory:
    """The usual people, and Dan."""
    return Directory([MARA, CLEO, RILEY, DAN])


@dataclass(kw_only=True)
class Office(Channels):
    """The stages, with an intake that verifies signatures."""

    verifying: Intake


@pytest.fixture
async def office(channels: Channels) -> AsyncIterator[Office]:
    """Return the stages with a quorum of two of three; the intake verifies."""
    async with serving(Zone()) as zone:
        zone.publish(COMPANY)
        zone.publish(ALSO)
        yield Office(
            ledger=channels.ledger,
            decider=channels.decider,
            directory=channels.directory,
            channel=channels.channel,
            policies=(TWO,),
            verifying=intake_of(channels, zone),
        )


def bare(token: str, text: str, number: int) -> bytes:
    """Return an unsigned answer with a date."""
    date = f"Sat, 21 Nov 2026 11:00:0{number} +0000"
    return answer(token, text, **{"Message-ID": f"<{number}@example.com>", "Date": date})


def written(token: str, text: str, number: int, fields: tuple[str, ...] = SIGNED) -> bytes:
    """Return a signed answer with a date."""
    return COMPANY.sign(bare(token, text, number), fields=fields)


async def votes(office: Channels, approval: Approval) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return who approves and who rejects."""
    ballot = (await office.ledger.approval(approval.id)).ballot
    return ballot.yes, ballot.no


def refolded(raw: bytes) -> bytes:
    """Return a mail whose signature header is folded differently."""
    return re.sub(rb"b=([A-Za-z0-9+/]{20})", rb"b=\1\r\n  ", raw.replace(b"\n", b"\r\n"), count=1)


def signed_again(raw: bytes) -> bytes:
    """Return a mail with another person's signature on top."""
    return Signer("evil.example").sign(raw)


REPLAYS = {
    "the same bytes": lambda raw: raw,
    "another trace": lambda raw: b"Received: from x by y; Sat, 21 Nov 2026 12:00:00 +0000\n" + raw,
    "a second Message-ID on top": lambda raw: b"Message-ID: <again@evil.example>\n" + raw,
    "a second Date on top": lambda raw: b"Date: Sun, 22 Nov 2026 11:00:00 +0000\n" + raw,
    "a second subject on top": lambda raw: b"Subject: x\n" + raw,
    "a thread on top": lambda raw: b"In-Reply-To: <x@evil.example>\n" + raw,
    "a field of no meaning": lambda raw: b"X-Mailer: other\n" + raw,
    "other folding": refolded,
    "signed by somebody else too": signed_again,
}


@pytest.mark.parametrize("replay", REPLAYS.values(), ids=REPLAYS)
@pytest.mark.parametrize("fields", [SIGNED, LOOSELY], ids=["all signed", "loosely signed"])
async def test_a_withdrawn_yes_stays_withdrawn(
    office: Office, replay: Callable[[bytes], bytes], fields: tuple[str, ...]
) -> None:
    """Mara approves and then rejects; a replay of her approval changes nothing."""
    approval, token = await office.ask()
    yes = written(token, "approve", 1, fields)
    await take(office, yes, intake=office.verifying)
    assert await votes(office, approval) == (("mara",), ())
    await take(office, written(token, "reject: no", 2, fields), intake=office.verifying)
    assert await votes(office, approval) == ((), ("mara",))

    await take(office, replay(yes), intake=office.verifying, peer="203.0.113.66")

    assert await votes(office, approval) == ((), ("mara",))
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


@pytest.mark.parametrize("name", ["Message-ID", "Date", "Subject", "References", "From"])
async def test_duplicate_header_field_proves_nothing(office: Office, name: str) -> None:
    """It is not known which of the two was signed, even if the mail is new."""
    approval, token = await office.ask()
    raw = written(token, "approve", 1)
    first = {"References": "<x@example.com>"}.get(name, "mara@example.com")
    told = await take(
        office, f"{name}: {first}\n{name}: {first}\n".encode() + raw, intake=office.verifying
    )
    assert await votes(office, approval) == ((), ())
    assert told["mara"].token


async def test_mail_with_one_signature_removed_is_the_same_mail(office: Office) -> None:
    """One of two signatures is enough, and removing the other makes no new mail."""
    approval, token = await office.ask()
    raw = bare(token, "approve", 1)
    once = COMPANY.sign(raw)
    twice = ALSO.sign(once)
    await take(office, twice, intake=office.verifying)
    assert await votes(office, approval) == (("mara",), ())
    await take(office, written(token, "reject: no", 2), intake=office.verifying)
    for copy in (once, twice.removesuffix(once) + raw):
        await take(office, copy, intake=office.verifying)
        assert await votes(office, approval) == ((), ("mara",))


async def test_new_mail_with_the_same_text_counts(office: Office) -> None:
    """A person who approves, rejects and approves again has approved."""
    approval, token = await office.ask()
    for number, text in enumerate(("approve", "reject: hm", "approve"), start=1):
        await take(office, written(token, text, number), intake=office.verifying)
    assert await votes(office, approval) == (("mara",), ())


async def test_a_replay_is_known_for_as_long_as_its_token_is_good(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """It is recognised even after months if the token is valid that long."""
    office = still_channels
    office.policies = (TWO.model_copy(update={"within": "200d"}),)
    async with serving(Zone()) as zone:
        zone.publish(COMPANY)
        intake = intake_of(office, zone)
        approval, token = await office.ask()
        yes = written(token, "approve", 1)
        await take(office, yes, intake=intake)
        await take(office, written(token, "reject: no", 2), intake=intake)
        pttl = await office.ledger.store.client.keys("*seen:*")
        lasting = [await office.ledger.store.client.pttl(key) for key in pttl]
        assert sum(one > timedelta(days=200).total_seconds() * 1000 for one in lasting) == 2
        await take(office, b"X-A: b\n" + yes, intake=intake)
        assert await votes(office, approval) == ((), ("mara",))


def retyped(raw: bytes, media_type: str) -> bytes:
    """Return a mail with another Content-Type."""
    return re.sub(rb"Content-Type: [^\n]*", b"Content-Type: " + media_type.encode(), raw, count=1)


@pytest.mark.parametrize(
    ("text", "media_type"),
    [
        ("<!-- I would rather wait -->approve", "text/html"),
        ("<style>not before Friday</style>approve", "text/html; charset=utf-8"),
        ("approve <but only the first half>", "text/html"),
        ("--b\n\nno\n\n--b\nContent-Type: text/plain\n\napprove\n--b--", "multipart/x; boundary=b"),
        ("not that\n--b\nContent-Type: text/plain\n\nyes\n--b--", "multipart/mixed; boundary=b"),
    ],
)
async def test_changed_unsigned_content_type_cannot_approve(
    office: Office, text: str, media_type: str
) -> None:
    """Most providers do not sign the Content-Type; the person reads why it was refused."""
    approval, token = await office.ask()
    raw = retyped(written(token, text, 1, ("from", "to", "subject", "date")), media_type)

    told = await take(office, raw, intake=office.verifying)

    assert await votes(office, approval) == ((), ())
    assert "Content-Type" in told["mara"].text
    assert told["mara"].token


async def test_signed_content_type_may_be_html(office: Office) -> None:
    """A changed type breaks the signature."""
    approval, token = await office.ask()
    page = retyped(bare(token, "<p>approve</p>", 1), "text/html")
    signed = COMPANY.sign(page)
    await take(office, retyped(signed, "text/plain"), intake=office.verifying)
    assert await votes(office, approval) == ((), ())
    await take(office, signed, intake=office.verifying)
    assert await votes(office, approval) == (("mara",), ())
