"""Forged authors by real SMTP with real DKIM signatures: no attack decides."""

from __future__ import annotations

import re
from email.message import EmailMessage
from pathlib import Path

import aiosmtplib
import pytest

from promises.plant import MANAGER, Plant, plant
from signoff.broker.ledger.follow import follow
from signoff.broker.submit import submit
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import State
from zone import FIELDS, Signer, Zone, serving

DOMAIN = MANAGER.rpartition("@")[2]
COMPANY = Signer(DOMAIN)
EVIL = Signer("evil.example")
SETTINGS = """\
[email.authentication]
dkim = true
authserv_id = "mx.signoff.example"
relays = ["192.0.2.0/24"]
nameservers = ["{server}"]
"""
RESULTS = (
    "Authentication-Results: mx.signoff.example; "
    f"dkim=pass header.d={DOMAIN}; dmarc=pass header.from={DOMAIN}\r\n"
).encode()


def answer(card: EmailMessage, sender: str = MANAGER, text: str = "approve") -> bytes:
    """Return an answer as a mail program writes it, without a signature."""
    mail = dev_mailbox.build_reply(card, text, "SENDER@signoff.example")
    raw = bytes(mail).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return raw.replace(b"SENDER@signoff.example", sender.encode(), 1)


def elsewhere(card: EmailMessage) -> bytes:
    """Return an approval that the manager has signed in a mail to a colleague."""
    head, _, body = answer(card).partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"To:")]
    return COMPANY.sign(b"\r\n".join([b"To: tom@example.com", *lines]) + b"\r\n\r\n" + body)


def to_another_mail(card: EmailMessage, **headers: str) -> bytes:
    """Return the manager's "yes" to a mail from Mallory with the card's address in Reply-To."""
    lines = answer(card, text="yes").split(b"\r\n")
    kept = [one for one in lines if not one.lower().startswith((b"subject:", b"in-reply-to:"))]
    kept = [one for one in kept if not one.lower().startswith(b"references:")]
    named = [f"{name.replace('_', '-')}: {value}".encode() for name, value in headers.items()]
    return COMPANY.sign(b"\r\n".join([*named, *kept]))


def as_html(card: EmailMessage) -> bytes:
    """Return a manager's refusal that reads "approve" as HTML; its Content-Type is not signed."""
    plain = answer(card, text="<!-- I would rather wait. -->approve")
    signed = COMPANY.sign(plain, fields=("from", "to", "subject", "date", "message-id"))
    return re.sub(rb"(?mi)^content-type:[^\r]*", b"Content-Type: text/html", signed, count=1)


def attacks(card: EmailMessage) -> dict[str, bytes]:
    """Return the mails that must not decide, by name."""
    good = COMPANY.sign(answer(card))
    token = str(card["Reply-To"]).encode()
    only_from = COMPANY.sign(answer(card), fields=("from", "date"))
    cut = COMPANY.sign(answer(card, text="see below"), length=True)
    return {
        "spoofed": answer(card),
        "signed by somebody else": EVIL.sign(answer(card)),
        "a look-alike domain": EVIL.sign(answer(card, "mara@xn--xample-2of.com")),
        "signed by himself, under the manager's name": EVIL.sign(
            answer(card, f'"{MANAGER}" <mallory@evil.example>')
        ),
        "results of his own on top": RESULTS + answer(card),
        "results of his own on a signature of his own": RESULTS + EVIL.sign(answer(card)),
        "another From on top": b"From: mallory@evil.example\r\n" + good,
        "another From below": good.replace(
            b"\r\n\r\n", b"\r\nFrom: mallory@evil.example\r\n\r\n", 1
        ),
        "a group": COMPANY.sign(answer(card, f"managers: {MANAGER};")),
        "a comment": COMPANY.sign(answer(card, MANAGER.replace("@", "(x)@"))),
        "an encoded word": COMPANY.sign(answer(card, f"=?utf-8?q?{MANAGER.replace('@', '=40')}?=")),
        "two addresses": COMPANY.sign(answer(card, f"{MANAGER}, mallory@evil.example")),
        "another text under the signature": good.replace(b"approve", b"approved", 1),
        "text added behind what is signed": cut + b"approve\r\n",
        "sent on from a colleague": elsewhere(card),
        "sent on, with the card's address on top": b"To: " + token + b"\r\n" + elsewhere(card),
        "sent on, with the card's address in copy": b"Cc: " + token + b"\r\n" + elsewhere(card),
        "the card's address not signed": only_from,
        "signed by a robot": COMPANY.sign(b"Auto-Submitted: auto-replied\r\n" + answer(card)),
        "signed by a list": COMPANY.sign(b"List-Id: <all.example.com>\r\n" + answer(card)),
        "signed, and only quoted": COMPANY.sign(answer(card, text="")),
        "a yes to lunch": to_another_mail(
            card, Subject="Re: Lunch at noon?", In_Reply_To="<lunch@evil.example>"
        ),
        "a yes to lunch, in no thread": to_another_mail(card, Subject="Re: Lunch at noon?"),
        "a yes to lunch, under the card's own id": to_another_mail(
            card, Subject="Re: Lunch at noon?", In_Reply_To=str(card["Message-ID"])
        ),
        "a yes to another mail, under the card's subject": to_another_mail(
            card, Subject=f"Re: {card['Subject']}", In_Reply_To="<lunch@evil.example>"
        ),
        "a no that is a yes as HTML": as_html(card),
        "a second Message-ID on top": b"Message-ID: <again@evil.example>\r\n" + good,
        "a second Date on top": b"Date: Sun, 22 Nov 2026 11:00:00 +0000\r\n" + good,
        "a second subject on top": b"Subject: x\r\n" + good,
    }


async def send(here: Plant, card: EmailMessage, raw: bytes) -> None:
    """Hand a mail to the gateway in an envelope with the card's token."""
    await aiosmtplib.send(
        raw,
        sender="mallory@evil.example",
        recipients=[str(card["Reply-To"])],
        hostname="127.0.0.1",
        port=here.inbound,
        start_tls=False,
    )


@pytest.mark.soak
@pytest.mark.promise
async def test_no_mail_that_anybody_can_send_decides(tmp_path: Path) -> None:
    """Each attack is recorded and decides nothing; the manager's signed answer decides once."""
    assert {"from", "to"} <= set(FIELDS)
    async with serving(Zone()) as zone:
        zone.publish(COMPANY)
        zone.publish(EVIL)
        settings = SETTINGS.format(server=zone.server)
        async with plant(tmp_path, "worker", "channels", "gateway", gateway=settings) as here:
            run = await submit(here.parts.ledger, "finance", "Reimburse me $2500", user="riley")
            card = await here.mailbox.wait_for(lambda mail: "+" in str(mail["Reply-To"]))
            noted = {
                *(What.REFUSED_ANSWER, What.IGNORED_MAIL, What.NOT_UNDERSTOOD, What.AWAY),
                *(What.APPROVED, What.REJECTED),
            }
            events = follow(here.parts.ledger.store)
            for name, raw in attacks(card).items():
                await send(here, card, raw)
                event = await anext(event async for event in events if event.what in noted)
                assert event.what not in {What.APPROVED, What.REJECTED}, name
                (approval,) = await here.parts.ledger.pending()
                assert approval.state is State.PENDING, name
            assert here.executions() == {}

            good = COMPANY.sign(answer(card))
            await send(here, card, good)
            assert (await here.ends([run.id]))[run.id].what is What.COMPLETED
            decided = await here.parts.ledger.approval(approval.id)
            assert decided.state is State.APPROVED
            await send(here, card, COMPANY.sign(answer(card, text="reject")))
            event = await anext(e async for e in events if e.what is What.REFUSED_ANSWER)
            assert "already approved" in event.why
            assert sum(here.executions().values()) == 1
            history = await here.parts.ledger.history(approval.id)
            (proof,) = [one.more["proof"] for one in history if one.what is What.APPROVED]
            assert proof == {
                "from": MANAGER,
                "proven": "dmarc",
                "by": f"DKIM signature of {DOMAIN}, verified here",
                "domain": DOMAIN,
            }
            others = [
                mail
                for mail in here.mailbox.received
                if MANAGER not in dev_mailbox.recipients_of(mail)
            ]
            assert others == []
