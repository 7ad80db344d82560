"""The author of a mail: the required proof, the given proof, and the replies."""

from __future__ import annotations

import asyncio
import email.policy
import ipaddress
from collections.abc import AsyncIterator, Sequence
from email.message import EmailMessage
from typing import Any

import pytest

from builders import proof_of
from channels.conftest import MAILBOX, Channels
from channels.writing import subject_of
from signoff.broker.ledger.change import Change
from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.inbound.intake import PATIENCE_WITH_DNS, Intake
from signoff.channels.email.inbound.stored import store
from signoff.channels.pipeline.port import Message
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import EmailProof, Policy
from zone import Signer, Zone, serving

COMPANY = Signer("example.com")
DMARC = EmailProof.TOKEN_FROM_DMARC


@pytest.fixture
async def zone() -> AsyncIterator[Zone]:
    """Return a DNS server that publishes the company's key."""
    async with serving(Zone()) as running:
        running.publish(COMPANY)
        yield running


def card_address(token: str) -> str:
    """Return the reply address with this token."""
    local, _, domain = MAILBOX.partition("@")
    return f"{local}+{token}@{domain}"


def answer(
    token: str, text: str = "approve", *, sender: str = "mara@example.com", **headers: str
) -> bytes:
    """Return an unsigned answer."""
    # Mail programs do not fold Message-IDs.
    mail = EmailMessage(policy=email.policy.default.clone(max_line_length=900))
    mail["From"] = "SENDER"
    mail["To"] = card_address(token)
    mail["Subject"] = subject_of(token)
    mail["Message-ID"] = "<reply@mail.example>"
    for name, value in headers.items():
        del mail[name]
        mail[name] = value
    mail.set_content(text)
    return mail.as_bytes().replace(b"From: SENDER", b"From: " + sender.encode())


async def take(
    channels: Channels,
    raw: bytes,
    *,
    intake: Intake | None = None,
    recipients: Sequence[str] = (),
    peer: str = "203.0.113.9",
) -> dict[str, Message]:
    """Store a mail, run the intake, and return the deliveries by person."""
    await store(channels.ledger, raw, sender="mara@example.com", recipients=recipients, peer=peer)
    channels.channel.delivered.clear()
    await (intake or channels.intake).drain()
    await channels.delivery.drain()
    return {message.person: message for message in channels.channel.delivered}


def intake_of(
    channels: Channels,
    zone: Zone | None = None,
    *,
    required: EmailProof = DMARC,
    absence_page: str = "",
    **more: Any,
) -> Intake:
    """Return an intake that verifies signatures if there is a zone."""
    txt = zone.txt() if zone is not None else None
    authenticator = Authenticator(dkim=zone is not None, txt=txt, **more)
    return Intake(
        channels.decider,
        mailbox=MAILBOX,
        authenticator=authenticator,
        required=required,
        absence_page=absence_page,
    )


@pytest.mark.parametrize(
    "sender",
    [
        "stranger@example.com",
        "mara@example.com.evil.example",
        '"mara@example.com" <stranger@example.com>',
        "mara@example.com, stranger@example.com",
        "MARA@example.com <stranger@evil.example>",
        "mara@exämple.com",
        "friends: mara@example.com;",
        "mara@example.com (stranger@evil.example) <stranger@evil.example>",
    ],
)
async def test_mail_from_another_sender_decides_nothing_and_is_reported(
    channels: Channels, sender: str
) -> None:
    """The approver and the requester are told; people whom the mail names are not."""
    approval, token = await channels.ask()
    told = await take(channels, answer(token, sender=sender))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert set(told) == {"mara", "riley"}
    assert told["mara"].address == "mara@example.com"
    assert told["mara"].headline.startswith("Somebody else answered")
    assert told["mara"].token
    assert told["riley"].headline.startswith("Somebody who was not asked")
    assert not told["riley"].token
    event = (await channels.events(approval))[-1]
    assert (event.what, event.by) == (What.REFUSED_ANSWER, "")


async def test_mail_with_two_authors_is_refused(channels: Channels) -> None:
    """A mail with two authors, one of them correct, is refused."""
    approval, token = await channels.ask()
    told = await take(channels, b"From: stranger@evil.example\n" + answer(token))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert told["mara"].headline.startswith("Somebody else")


@pytest.mark.parametrize(
    ("added", "why"),
    [
        (b"Content-Type: text/html\n", "it has two Content-Type fields"),
        (b"Content-Transfer-Encoding: base64\n", "it has two Content-Transfer-Encoding fields"),
        (b"X-Note: a\rb\n", "mail programs may read differently"),
        (b" folded\n", "mail programs may read differently"),
    ],
)
async def test_own_mail_with_a_doubtful_header_is_not_called_a_strangers(
    channels: Channels, added: bytes, why: str
) -> None:
    """It decides nothing; only the person is told, at the known address, and what to change."""
    approval, token = await channels.ask()
    told = await take(channels, added + answer(token))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert set(told) == {"mara"}
    assert told["mara"].headline.startswith("Not counted: nothing proves")
    assert told["mara"].address == "mara@example.com"
    assert why in told["mara"].text


async def test_a_strangers_address_is_shown_plainly(channels: Channels) -> None:
    """Lookalike letters and line breaks in it are escaped in notices."""
    approval, token = await channels.ask()
    sender = "=?utf-8?q?mara=40example=2Ecom=0D=0ABcc=3A?= <x@xn--mple-5ya.example>"
    told = await take(channels, answer(token, sender=sender))
    assert all(message.text.isascii() and "\r" not in message.text for message in told.values())
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING


async def test_proven_user_of_a_forwarded_token_gets_a_message(
    channels: Channels, zone: Zone
) -> None:
    """The user of the token is told too if their mail is proven, without the call."""
    approval, token = await channels.ask(amount=2500)
    raw = answer(token, sender="cleo@example.com")
    told = await take(channels, COMPANY.sign(raw), intake=intake_of(channels, zone))
    assert set(told) == {"mara", "riley", "cleo"}
    assert told["cleo"].headline.startswith("You cannot decide")
    assert told["cleo"].address == "cleo@example.com"
    assert "2500" not in str(told["cleo"].card.rows)
    assert "2500" in str(told["riley"].card.rows)
    assert not told["cleo"].token
    again = answer(token, "yes", sender="cleo@example.com")
    assert await take(channels, COMPANY.sign(again), intake=intake_of(channels, zone)) == {}
    event = (await channels.events(approval))[-1]
    assert event.why == "it is from cleo, who was not asked by this card"
    assert proof_of(event)["domain"] == "example.com"


async def test_unproven_sender_gets_no_answer(channels: Channels) -> None:
    """A mail in a colleague's name sends the colleague no mail."""
    _approval, token = await channels.ask()
    assert set(await take(channels, answer(token, sender="cleo@example.com"))) == {"mara", "riley"}


async def test_signed_answer_decides_and_its_proof_is_recorded(
    channels: Channels, zone: Zone
) -> None:
    """The event of the decision has the proof."""
    approval, token = await channels.ask()
    await take(channels, COMPANY.sign(answer(token)), intake=intake_of(channels, zone))
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
    (event,) = [one for one in await channels.events(approval) if one.what is What.APPROVED]
    assert event.more["proof"] == {
        "from": "mara@example.com",
        "proven": "dmarc",
        "by": "DKIM signature of example.com, verified here",
        "domain": "example.com",
    }


async def test_unsigned_answer_gets_one_notice_a_day(channels: Channels, zone: Zone) -> None:
    """Nothing is decided; the notice goes to the known address and can be answered."""
    approval, token = await channels.ask()
    intake = intake_of(channels, zone)
    told = await take(channels, answer(token), intake=intake)
    assert set(told) == {"mara"}
    assert told["mara"].address == "mara@example.com"
    assert told["mara"].headline.startswith("Not counted: nothing proves")
    assert "it has no DKIM signature of example.com" in told["mara"].text
    assert await take(channels, answer(token, "yes"), intake=intake) == {}
    event = (await channels.events(approval))[-1]
    assert event.what is What.REFUSED_ANSWER
    assert event.why.startswith("the sender is not proven")
    signed = COMPANY.sign(answer(told["mara"].token))
    await take(channels, signed, intake=intake)
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


async def test_forwarded_signed_mail_decides_nothing(channels: Channels, zone: Zone) -> None:
    """A signed mail to somebody else, or to another card, does not answer this one."""
    intake = intake_of(channels, zone)
    first, other = await channels.ask()
    approval, token = await channels.ask()
    envelope = [card_address(token)]
    for raw in (
        COMPANY.sign(answer("", To="tom@example.com")),
        f"To: {card_address(token)}\n".encode() + COMPANY.sign(answer("", To="tom@example.com")),
        COMPANY.sign(answer(token), fields=("from", "subject", "date")),
    ):
        await take(channels, raw, intake=intake, recipients=envelope)
        assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    raw = COMPANY.sign(answer(other))
    await take(channels, raw, intake=intake)
    assert (await channels.ledger.approval(first.id)).state is State.APPROVED
    await take(channels, raw, intake=intake, recipients=envelope)
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING


async def test_forged_copy_does_not_block_the_real_mail(channels: Channels, zone: Zone) -> None:
    """Two mails with the same text differ if only one of them is proven."""
    approval, token = await channels.ask()
    intake = intake_of(channels, zone)
    await take(channels, answer(token), intake=intake)
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    await take(channels, COMPANY.sign(answer(token)), intake=intake)
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


async def test_while_the_dns_is_away_the_mail_waits(
    channels: Channels, zone: Zone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It decides when the DNS is back; other mails decide meanwhile."""
    monkeypatch.setattr("signoff.channels.email.inbound.intake.backoff", lambda _attempts: 0.01)
    monkeypatch.setattr("signoff.channels.email.authentication.lookup._RESTS", 0.0)
    name = "s1._domainkey.example.com"
    zone.broken.add(name)
    approval, token = await channels.ask()
    intake = intake_of(channels, zone)
    monkeypatch.setattr("signoff.channels.email.inbound.intake.PATIENCE_WITH_DNS", 10_000)
    raw = COMPANY.sign(answer(token))
    await store(channels.ledger, raw, sender="mara@example.com", recipients=())
    while len(zone.asked) < 3:
        await intake.drain()
        await asyncio.sleep(0.01)
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert What.REFUSED_ANSWER not in await channels.whats(approval)
    zone.broken.clear()
    while (await channels.ledger.approval(approval.id)).state is State.PENDING:
        await intake.drain()
        await asyncio.sleep(0.01)


async def test_unavailable_dns_leaves_the_answer_unproven(
    channels: Channels, zone: Zone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some minutes the person is told; nothing is lost or decided."""
    monkeypatch.setattr("signoff.channels.email.inbound.intake.backoff", lambda _attempts: 0.01)
    zone.broken.add("s1._domainkey.example.com")
    approval, token = await channels.ask()
    intake = intake_of(channels, zone)
    await store(channels.ledger, COMPANY.sign(answer(token)), sender="m@x.example", recipients=())
    tries = 0
    while What.REFUSED_ANSWER not in await channels.whats(approval):
        tries += await intake.drain()
        await asyncio.sleep(0.01)
    assert tries == PATIENCE_WITH_DNS
    await channels.delivery.drain()
    (told,) = [one for one in channels.channel.delivered if one.headline.startswith("Not counted")]
    assert "the DNS could not be asked" in told.text


async def test_results_count_only_from_our_server(channels: Channels) -> None:
    """The same mail is proven from the relay, and not from elsewhere."""
    line = b"Authentication-Results: mx.signoff.example; dmarc=pass header.from=example.com\n"
    intake = intake_of(channels, authserv_id="mx.signoff.example", relays=_networks("10.1.0.0/16"))
    approval, token = await channels.ask()
    await take(channels, line + answer(token), intake=intake, peer="203.0.113.9")
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    raw = line + answer(token, **{"Message-ID": "<2@mail.example>"})
    await take(channels, raw, intake=intake, peer="10.1.2.3")
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


@pytest.mark.parametrize("sender", ["mara@example.com", "mara.private@mail.example"])
async def test_a_policy_may_be_content_with_the_token(channels: Channels, sender: str) -> None:
    """It then accepts any address that is not another person's, whatever the default."""
    channels.policies = (Policy(name="coffee", ask=("mara",), email=EmailProof.TOKEN),)
    approval, token = await channels.ask()
    intake = intake_of(channels)
    for other in ("cleo@example.com", "riley@example.com", "r.voss@example.net"):
        await take(channels, answer(token, sender=other), intake=intake)
        assert (await channels.ledger.approval(approval.id)).state is State.PENDING, other
    await take(channels, answer(token, sender=sender), intake=intake)
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


async def test_unknown_requester_with_a_token_cannot_decide(
    channels: Channels,
) -> None:
    """The requester is recognised by the agent's user address, in the directory or not."""
    channels.policies = (Policy(name="coffee", ask=("mara",), email=EmailProof.TOKEN),)
    approval, token = await channels.ask(user="guest@elsewhere.example")
    await take(channels, answer(token, sender="Guest@elsewhere.example"))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING


async def test_a_policy_may_ask_for_more_than_the_default(channels: Channels, zone: Zone) -> None:
    """The snapshot's requirement counts, and an alias is a normal address."""
    channels.policies = (Policy(name="money", ask=("mara",), email=DMARC),)
    approval, token = await channels.ask()
    intake = intake_of(channels, zone, required=EmailProof.TOKEN_FROM)
    await take(channels, answer(token), intake=intake)
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    await take(channels, COMPANY.sign(answer(token)), intake=intake)
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


async def test_proof_decides_once_and_never_after_the_deadline(
    channels: Channels, zone: Zone
) -> None:
    """The same proof does not decide twice, and nothing decides after the deadline."""
    intake = intake_of(channels, zone)
    approval, token = await channels.ask()
    await take(channels, COMPANY.sign(answer(token, "reject")), intake=intake)
    again = answer(token, "approve", **{"Message-ID": "<2@mail.example>"})
    told = await take(channels, COMPANY.sign(again), intake=intake)
    assert (await channels.ledger.approval(approval.id)).state is State.REJECTED
    assert told["mara"].headline.startswith("You had already rejected")
    late, token = await channels.ask()
    past = late.model_copy(update={"deadline": await channels.ledger.now()})
    await channels.ledger.commit(Change().put(past, was=late))
    told = await take(channels, COMPANY.sign(answer(token)), intake=intake)
    assert (await channels.ledger.approval(late.id)).state is State.PENDING
    assert told["mara"].headline.startswith("Too late")


async def test_a_domain_may_be_written_in_its_own_letters(channels: Channels) -> None:
    """Addresses are compared in the ASCII form that mail programs use."""
    mara = Person(id="mara", email="mara@bücher.example", aliases=("m@straße.example",))
    channels.directory.become(Directory([mara]))
    approval, token = await channels.ask(user="somebody")
    await take(channels, answer(token, sender="m@strasse.example"))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    await take(channels, answer(token, sender="Mara@xn--bcher-kva.example"))
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


def _networks(*names: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(name) for name in names]


async def test_contradicting_text_and_html_decide_nothing(channels: Channels) -> None:
    """If a plain "approve" differs from the page, the person is asked again."""
    approval, token = await channels.ask()
    mail = EmailMessage()
    mail["From"], mail["To"] = "mara@example.com", card_address(token)
    mail["Subject"], mail["Message-ID"] = subject_of(token), "<two@mail.example>"
    mail.set_content("approve")
    mail.add_alternative("<p>I will look at it</p>", subtype="html")
    told = await take(channels, mail.as_bytes())
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert "two versions" in told["mara"].text
