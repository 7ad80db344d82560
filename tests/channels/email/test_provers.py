"""Authors are verified in separate processes, as mails are read in separate processes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import dkim
import pytest

from channels.conftest import MAILBOX, Channels
from channels.email.test_readers import children
from channels.test_who_wrote_it import COMPANY, answer
from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.proof import Proof, Proven
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.readers import Provers, Readers
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.parsing import mime
from signoff.core.approvals.approval import State
from signoff.core.base.errors import MailTooCostly, MailTooLarge
from signoff.core.policies.policy import EmailProof
from zone import Signer, Zone, serving

SERVER = "mx.signoff.example"
PASS = f"Authentication-Results: {SERVER}; dmarc=pass header.from=example.com\r\n".encode()
TOKEN = "a" * 26


@pytest.fixture
async def zone() -> AsyncIterator[Zone]:
    """Return a DNS server that publishes the company's key."""
    async with serving(Zone()) as running:
        running.publish(COMPANY)
        yield running


@pytest.fixture
def here(zone: Zone) -> Authenticator:
    """Return an authenticator that verifies signatures and knows a mail server."""
    return Authenticator(
        authserv_id=SERVER,
        relays=["127.0.0.0/8"],
        dkim=True,
        txt=zone.txt(),
    )


@pytest.fixture
async def provers(here: Authenticator) -> AsyncIterator[Provers]:
    """Return the same authenticator in separate processes."""
    made = Provers(here)
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("raw", "peer", "proven"),
    [
        (COMPANY.sign(answer(TOKEN)), "203.0.113.9", Proven.DMARC),
        (COMPANY.sign(answer(TOKEN)).replace(b"approve", b"reject!"), "", Proven.FROM),
        (Signer("evil.example").sign(answer(TOKEN)), "", Proven.FROM),
        (PASS + answer(TOKEN), "127.0.0.1", Proven.DMARC),
        (PASS + answer(TOKEN), "203.0.113.9", Proven.FROM),
        (b"From: tom@example.com\r\n" + answer(TOKEN), "", Proven.NONE),
        (b"", "", Proven.FROM),
    ],
)
async def test_the_prover_process_returns_the_same_proof(
    here: Authenticator, provers: Provers, raw: bytes, peer: str, proven: Proven
) -> None:
    """The process gets settings, peer and DNS answers, and returns every field of the proof."""
    now = datetime.now(UTC)
    sender = "mara@example.com"
    found = await provers.prove(raw, sender, peer=peer, now=now)
    assert found.proven is proven
    assert found == await here.prove(raw, sender, peer=peer, now=now)


async def test_a_mail_without_a_sender_proves_nothing(provers: Provers) -> None:
    """A missing address stays missing."""
    found = await provers.prove(answer(TOKEN), None, peer="", now=datetime.now(UTC))
    assert (found.proven, found.address) == (Proven.NONE, "")


async def test_the_dns_is_asked_from_here_and_may_be_away(provers: Provers, zone: Zone) -> None:
    """A failed lookup is retried later; the process itself opens no connection."""
    name = f"{COMPANY.selector}._domainkey.{COMPANY.domain}"
    zone.broken.add(name)
    raw, now = COMPANY.sign(answer(TOKEN)), datetime.now(UTC)
    found = await provers.prove(raw, "mara@example.com", peer="", now=now)
    assert (found.proven, found.temporary) == (Proven.FROM, True)
    assert zone.asked == [name]
    (process,) = children("signoff.channels.email.inbound.prover")
    assert process.net_connections() == []


async def test_the_prover_process_enforces_the_same_limits(provers: Provers) -> None:
    """A header over a limit is refused there as in this process."""
    raw = b"X: " + b"y" * (1 << 20) + b"\r\n" + answer(TOKEN)
    with pytest.raises(MailTooLarge):
        await provers.prove(raw, "mara@example.com", peer="", now=datetime.now(UTC))


async def test_a_process_that_asks_without_end_is_broken_off(
    here: Authenticator, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A broken process cannot keep this process busy with lookups."""
    program = tmp_path_factory.mktemp("odd") / "asks.py"
    program.write_text(
        "import sys\n"
        "from signoff.channels.email.inbound.reader import serve\n"
        "def work(raw, ask):\n"
        "    while True:\n"
        "        ask({'txt': '.'})\n"
        "serve(work, int(sys.argv[1]), int(sys.argv[2]))\n"
    )
    provers = Provers(here, program=(str(program),))
    try:
        with pytest.raises(MailTooCostly, match="more than 100 look-ups"):
            await provers.prove(b"", None, peer="", now=datetime.now(UTC))
        assert children(str(program)) == []
    finally:
        await provers.close()


async def test_an_answer_by_mail_is_parsed_in_no_process_of_ours(
    channels: Channels, provers: Provers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signed answer decides although each parser in this process would fail."""
    approval, token = await channels.ask()
    raw = COMPANY.sign(answer(token))
    await store(channels.ledger, raw, sender="mara@example.com", recipients=[], peer="203.0.113.9")

    def broken(*_: object, **__: object) -> None:
        raise AssertionError("foreign bytes were parsed here")

    for module in [one for name, one in sys.modules.items() if name.startswith("signoff.channels")]:
        for name in ("parse_mail", "parse_headers", "read_mail", "parse_tags"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, broken)
    monkeypatch.setattr(dkim, "DKIM", broken)
    assert vars(mime)["parse_mail"] is broken
    readers = Readers()
    intake = Intake(
        channels.decider,
        mailbox=MAILBOX,
        read=readers.read,
        authenticator=provers,
        required=EmailProof.TOKEN_FROM_DMARC,
    )
    try:
        await intake.drain()
    finally:
        await readers.close()
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


def test_a_proof_has_no_field_that_a_process_could_not_send() -> None:
    """All fields can be written as JSON."""
    assert {str(kind) for kind in Proof.__annotations__.values()} <= {
        "str",
        "bool",
        "Proven",
        "tuple[str, ...]",
        "tuple[str, ...] | None",
    }
