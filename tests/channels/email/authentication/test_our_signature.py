"""Our own DKIM signature: it verifies, covers the important fields, and its key is checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dkim
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from builders import MARA, NOON, asked_approval, people
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.email.outbound.dkim import Signer
from signoff.channels.email.outbound.render import render
from signoff.channels.email.outbound.settings import DkimSettings
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.pipeline.reply_tokens import new_token
from signoff.core.base.errors import ConfigError
from signoff.core.cards.card import card
from zone import Zone


def write_key(path: Path, key: PrivateKeyTypes) -> Path:
    """Write a private key in PEM."""
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.fixture(scope="module", params=["rsa", "ed25519"])
def signer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Signer:
    """Return a signer for signoff.example with a key of either kind."""
    made = (
        rsa.generate_private_key(65537, 2048)
        if request.param == "rsa"
        else ed25519.Ed25519PrivateKey.generate()
    )
    path = write_key(tmp_path_factory.mktemp("dkim") / "key.pem", made)
    return Signer(DkimSettings(domain="signoff.example", selector="s1", key=path), path)


def mail(**parts: Any) -> bytes:
    """Return a card as the channel sends it."""
    approval = asked_approval(hint="für Jörg ✓\n\n  .\n\n\n")
    message = Message(
        id="card:1",
        kind=Kind.CARD,
        card=card(approval, people()),
        person="mara",
        name="Mara Lind",
        address=MARA.email,
        at=NOON,
        token=new_token(),
    )
    settings = EmailSettings(mailbox="approvals@signoff.example", sender="a@signoff.example")
    return render(replace(message, **parts), settings).as_bytes()


def holds(raw: bytes, signer: Signer) -> bool:
    """Return whether the signature verifies with the key of the record."""
    return bool(
        dkim.verify(raw, dnsfunc=lambda name, timeout=5: signer.record.encode(), minkey=1024)
    )


def test_our_signature_covers_body_to_and_from(signer: Signer) -> None:
    """It verifies; with another body, another To or a second From it does not."""
    raw = signer.sign(mail())
    assert holds(raw, signer)
    assert b"c=relaxed/relaxed" in raw
    assert b" l=" not in raw.partition(b"\r\nFrom:")[0]
    assert not holds(raw + b"approve\r\n", signer)
    assert not holds(raw.replace(b"To: Mara", b"To: Mallory"), signer)
    for name in (b"From", b"To", b"Subject", b"Reply-To", b"Date", b"In-Reply-To"):
        assert not holds(name + b": <mallory@evil.example>\r\n" + raw, signer), name


async def test_the_key_in_the_dns_is_compared(signer: Signer, zone: Zone) -> None:
    """The doctor reports a missing or different key, and a DNS that cannot be asked."""
    name = "s1._domainkey.signoff.example"
    txt = zone.txt()
    assert "is not there" in (await signer.problem(txt) or "")
    zone.records[name] = ["v=DKIM1; k=rsa; p=AAAA"]
    assert "has another key" in (await signer.problem(zone.txt()) or "")
    zone.records[name] = [signer.record]
    assert await signer.problem(zone.txt()) == ""
    zone.broken.add(name)
    assert await signer.problem(zone.txt()) is None


@pytest.mark.parametrize("kind", ["small", "curve", "text", "missing"])
def test_a_key_that_cannot_be_used_is_an_error_of_the_settings(kind: str, tmp_path: Path) -> None:
    """The error names the file and says how to make a key."""
    path = tmp_path / "key.pem"
    if kind == "small":
        write_key(path, rsa.generate_private_key(65537, 1024))
    elif kind == "curve":
        write_key(path, ec.generate_private_key(ec.SECP256R1()))
    elif kind == "text":
        path.write_text("secret")
    dkim_settings = DkimSettings(domain="signoff.example", selector="s1", key=path)
    with pytest.raises(ConfigError, match=r"key\.pem"):
        EmailChannel(EmailSettings(dkim=dkim_settings))


@pytest.mark.parametrize(
    "parts", [{"domain": "x.example"}, {"selector": "s", "key": "k.pem"}, {"domain": "a;b"}]
)
def test_half_a_setting_is_an_error(parts: dict[str, str]) -> None:
    """Domain, selector and key have to be set together, and have to be valid names."""
    with pytest.raises(ValueError, match=r"come together|not a name"):
        DkimSettings(**parts)
