"""OpenDKIM as another signer and verifier, in Postfix, with keys from a real DNS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from builders import MARA, NOON, asked_approval, people, proof_of
from channels.conftest import MAILBOX, Channels, Sink, SinkFactory
from channels.writing import subject_of
from lmtp import deliver
from postfix import needs_root, opendkim, postfix, swaks
from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.results import Results, topmost
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.outbound import dkim
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.email.outbound.settings import DkimSettings
from signoff.channels.email.parsing.mime import parse_headers
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Delivered, Kind, Message
from signoff.channels.pipeline.reply_tokens import new_token
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.cards.card import card
from zone import Signer, Zone, letter, serving

pytestmark = [pytest.mark.soak, needs_root]

COMPANY = Signer("example.com", bits=2048)
SERVER = "mx.signoff.example"
SIGNS = """\
Mode s
Domain {domain}
Selector {selector}
KeyFile {key}
SignatureAlgorithm rsa-sha256
Canonicalization {form}
OversignHeaders From
InternalHosts 127.0.0.1
"""
VERIFIES = """\
Mode v
AuthservID {server}
Nameservers {nameserver}
ResolverConfiguration {resolver}
"""


HOW_TO = Path(__file__).parents[3] / "docs/how-to/connect-a-mailbox.md"
STRIPS = """\
header_checks = regexp:{ {/^Authentication-Results[[:space:]]*:/ IGNORE} }
nested_header_checks =
"""


def delivering(protocol: str, port: int) -> str:
    """Return the Postfix settings that forward all mail for the gateway to a port."""
    hop = f"inet:127.0.0.1:{port}" if protocol == "lmtp" else f"[127.0.0.1]:{port}"
    return (
        f"transport_maps = inline:{{ {{ {MAILBOX} = {protocol}:{hop} }} }}\n"
        "local_recipient_maps = inline:{ approvals=signoff }\n"
    )


@dataclass
class Office:
    """A gateway that takes mail by LMTP and verifies signatures, with its decisions."""

    channels: Channels
    server: MailServer
    intake: Intake

    async def taken(self) -> None:
        """Wait until one more mail has arrived and was processed."""
        # Postfix acknowledges a mail before it passes it on.
        async with asyncio.timeout(300):
            while not await self.intake.drain():  # noqa: ASYNC110 -- no signal announces it
                await asyncio.sleep(0.05)

    async def state(self, approval: Approval) -> tuple[State, What, str]:
        """Return the state of a request and its last event."""
        last = (await self.channels.events(approval))[-1]
        return (await self.channels.ledger.approval(approval.id)).state, last.what, last.why


@asynccontextmanager
async def office(channels: Channels, **authentication: Any) -> AsyncIterator[Office]:
    """Run a gateway."""
    settings = EmailSettings(
        mailbox=MAILBOX,
        inbound={"protocol": "lmtp", "port": 0},
        authentication={"require": "token+from+dmarc", **authentication},
    )
    server = MailServer(settings, channels.ledger)
    intake = Intake(
        channels.decider,
        mailbox=MAILBOX,
        authenticator=Authenticator.of(settings.authentication, dkim=settings.verifies_dkim),
        required=settings.required,
    )
    await server.start()
    try:
        yield Office(channels, server, intake)
    finally:
        await server.stop()


@dataclass
class Relays:
    """The services beside the gateway, and the test's ways to send."""

    zone: Zone
    folder: Path

    def signs(self, form: str = "relaxed/relaxed") -> str:
        """Return the settings of an OpenDKIM that signs for the managers' domain."""
        key = self.folder / "key.pem"
        key.write_bytes(COMPANY.key)
        self.zone.publish(COMPANY)
        return SIGNS.format(domain=COMPANY.domain, selector=COMPANY.selector, key=key, form=form)

    def verifies(self) -> str:
        """Return the settings of an OpenDKIM that verifies, as the server of the gateway."""
        resolver = self.folder / "unbound.conf"
        resolver.write_text("server:\n  do-not-query-localhost: no\n")
        nameserver = self.zone.server.replace(":", "@")
        return VERIFIES.format(server=SERVER, nameserver=nameserver, resolver=resolver)


@pytest.fixture
async def relays(tmp_path: Path) -> AsyncIterator[Relays]:
    """Return everything that an OpenDKIM needs."""
    async with serving(Zone()) as zone:
        yield Relays(zone, tmp_path)


async def say(port: int, token: str, text: str) -> None:
    """Send an answer as the manager's mail program does."""
    await send(port, token, "--header", f"Subject: {subject_of(token)}", "--body", text)


async def send(port: int, token: str, *options: str) -> None:
    """Send a mail from the manager to the address of a card."""
    to = f"approvals+{token}@signoff.example"
    sent = await swaks(port, "--from", MARA.email, "--to", to, *options)
    assert sent.returncode == 0, sent.stdout


async def hand_on(raw: bytes, token: str, port: int) -> None:
    """Deliver by LMTP a mail that arrived in another way."""
    await deliver(port, f"approvals+{token}@signoff.example", raw, sender=MARA.email)


async def arrival(sink: Sink) -> bytes:
    """Return the next mail that a server accepts."""
    async with asyncio.timeout(300):
        while not sink.envelopes:  # noqa: ASYNC110 -- the server gives no signal
            await asyncio.sleep(0.05)
    content = sink.envelopes.pop().content
    assert isinstance(content, bytes)
    return content


def a_card() -> Message:
    """Return a card that is hard to sign: letters, blank lines, dots, trailing spaces."""
    return Message(
        id="card:1",
        kind=Kind.CARD,
        card=card(asked_approval(hint="f\u00fcr J\u00f6rg \u2713  \n\n  .\n\n\n"), people()),
        person=MARA.id,
        name=MARA.name,
        address=MARA.email,
        at=NOON,
        token=new_token(),
    )


def said(raw: bytes) -> Results:
    """Return the results in the top field of a mail."""
    found = topmost(parse_headers(raw), SERVER)
    assert found is not None, raw
    return found


async def test_a_reply_signed_by_opendkim_decides(channels: Channels, relays: Relays) -> None:
    """The manager's server signs with strict canonicalisation, and Signoff verifies it."""
    approval, token = await channels.ask()
    async with (
        office(channels, nameservers=[relays.zone.server]) as here,
        opendkim(relays.signs("simple/simple")) as milter,
        postfix(delivering("lmtp", here.server.port) + f"smtpd_milters = {milter}\n") as port,
    ):
        await say(port, token, "approve\nnote: f\u00fcr J\u00f6rg  \n\n  .\n\n-- \nMara\n\n\n")
        await here.taken()
        state, what, _ = await here.state(approval)
    assert (state, what) == (State.APPROVED, What.APPROVED)
    (event,) = [one for one in await channels.events(approval) if one.what is What.APPROVED]
    assert proof_of(event)["by"] == "DKIM signature of example.com, verified here"


async def test_a_reply_modified_in_transit_decides_nothing(
    channels: Channels, relays: Relays, start_sink: SinkFactory
) -> None:
    """A second hop changes the text after the signature; unchanged, the same mail decides."""
    approval, token = await channels.ask()
    sink = await start_sink()
    async with (
        office(channels, nameservers=[relays.zone.server]) as here,
        opendkim(relays.signs()) as milter,
        postfix(delivering("smtp", sink.port) + f"smtpd_milters = {milter}\n") as port,
    ):
        await say(port, token, "reject: too much")
        signed = await arrival(sink)
        for changed in (
            signed.replace(b"reject: too much", b"approve: too much"),
            signed.replace(b"Subject: Re: ", b"Subject: "),
            b"From: mallory@evil.example\r\n" + signed,
            signed + b"approve\r\n",
        ):
            assert changed != signed
            await hand_on(changed, token, here.server.port)
            await here.taken()
            state, what, why = await here.state(approval)
            assert (state, what) == (State.PENDING, What.REFUSED_ANSWER), why
        await hand_on(signed, token, here.server.port)
        await here.taken()
        state, what, why = await here.state(approval)
    assert state is State.REJECTED, why


async def test_another_program_verifies_our_signatures(
    relays: Relays, start_sink: SinkFactory, tmp_path: Path
) -> None:
    """Our mail has dkim=pass in the results of OpenDKIM; a changed mail does not."""
    sink = await start_sink()
    async with (
        opendkim(relays.verifies()) as milter,
        postfix(f"smtpd_milters = {milter}\nrelayhost = [127.0.0.1]:{sink.port}\n") as port,
    ):
        for key in (rsa.generate_private_key(65537, 2048), Ed25519PrivateKey.generate()):
            path = tmp_path / f"{type(key).__name__}.pem"
            pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
            path.write_bytes(key.private_bytes(*pem, serialization.NoEncryption()))
            ours = DkimSettings(domain="signoff.example", selector=path.stem, key=path)
            signer = dkim.Signer(ours, path)
            relays.zone.records[signer.name] = [signer.record]
            settings = EmailSettings(
                mailbox=MAILBOX,
                sender=f"Signoff <{MAILBOX}>",
                smtp={"host": "127.0.0.1", "port": port},
                dkim=ours,
            )
            (result,) = await EmailChannel(settings).deliver([a_card()])
            assert isinstance(result, Delivered)
            sent = await arrival(sink)
            passed = said(sent).of("dkim")[0]
            assert (passed.value, passed.domain("header.d")) == ("pass", "signoff.example"), sent
            changed = sent[sent.index(b"DKIM-Signature:") :].replace(b"2500", b"25")
            await aiosmtplib.send(
                changed, sender=MAILBOX, recipients=[MARA.email], hostname="127.0.0.1", port=port
            )
            sent = await arrival(sink)
            assert said(sent).of("dkim")[0].value == "fail", sent


async def test_results_of_the_server_in_front_decide_and_forged_ones_do_not(
    channels: Channels, relays: Relays
) -> None:
    """With the documented setup, a sender's forged results do not count; OpenDKIM's do."""
    assert STRIPS in HOW_TO.read_text()
    approval, token = await channels.ask()
    evil = Signer("evil.example")
    relays.zone.publish(COMPANY)
    relays.zone.publish(evil)
    mail = letter(to=f"approvals+{token}@signoff.example", subject=subject_of(token))
    forged = f"Authentication-Results: {SERVER}; dmarc=pass header.from=example.com\r\n".encode()
    file = relays.folder / "mail"
    async with (
        office(channels, dkim=False, authserv_id=SERVER) as here,
        opendkim(relays.verifies()) as milter,
        postfix(
            delivering("lmtp", here.server.port) + f"smtpd_milters = {milter}\n" + STRIPS
        ) as port,
    ):
        for raw in (
            forged + mail,
            forged.replace(b": ", b"\t: ").upper() + mail,
            forged.replace(b": ", b":\r\n\t(\r\n (x)) ") + mail,
            b"X-A: b\n" + forged + mail,
            forged + evil.sign(mail),
            forged + COMPANY.sign(mail).replace(b"\r\n\r\n", b"\r\n\r\nyes, ", 1),
        ):
            file.write_bytes(raw)
            await send(port, token, "--data", f"@{file}")
            await here.taken()
            state, what, why = await here.state(approval)
            assert (state, what) == (State.PENDING, What.REFUSED_ANSWER), (why, raw)
        file.write_bytes(COMPANY.sign(mail))
        await send(port, token, "--data", f"@{file}")
        await here.taken()
        state, _, why = await here.state(approval)
    assert state is State.APPROVED, why
    (event,) = [one for one in await channels.events(approval) if one.what is What.APPROVED]
    assert proof_of(event)["by"] == f"Authentication-Results of {SERVER}"
