"""Answers from a mailbox: a real Dovecot, and a gateway that is killed."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from email.message import EmailMessage
from pathlib import Path

import httpx
import pytest

from dovecot import PASSWORD, Dovecot, dovecot
from lmtp import deliver
from promises.plant import MANAGER, Plant, plant
from signoff.broker.submit import submit
from signoff.channels.email.imap.cursor import lease_key
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import What


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    """Return a mail server with the mailbox of the approvals."""
    with dovecot() as running:
        yield running


@pytest.fixture
async def office(server: Dovecot, tmp_path: Path) -> AsyncIterator[Plant]:
    """Return a plant whose gateways read that mailbox and accept no mail."""
    tables = f"""\
[email.imap]
host = "127.0.0.1"
port = {server.imap}
security = "none"
username = "approvals"
password = "{PASSWORD}"
takeover = 12
"""
    async with plant(tmp_path, "worker", "channels", gateway=tables) as here:
        here.environment["SIGNOFF_EMAIL__INBOUND__LISTEN"] = "false"
        await here.start("gateway")
        yield here


async def card_of(office: Plant, purpose: str) -> tuple[str, EmailMessage]:
    """Submit a run that asks; return its id and its card."""
    run = await submit(
        office.parts.ledger,
        "finance",
        f"Reimburse me $2500 for {purpose}",
        user="riley@example.com",
    )
    card = await office.mailbox.wait_for(lambda mail: purpose in mail.as_string())
    return run.id, card


async def answer(server: Dovecot, card: EmailMessage, text: str) -> None:
    """Deliver the manager's reply to the mailbox, by LMTP."""
    reply = dev_mailbox.build_reply(card, text, MANAGER)
    await deliver(server.lmtp, str(reply["To"]), reply.as_bytes(), sender=MANAGER)


@pytest.mark.soak
async def test_standby_gateway_reads_the_mailbox_after_the_first_is_killed(
    office: Plant, server: Dovecot
) -> None:
    """The first gateway reads a reply and is killed; the second reads the next one."""
    run, card = await card_of(office, "a desk")
    await answer(server, card, "approve")
    assert (await office.ends([run]))[run].what is What.COMPLETED
    assert office.executions().total() == 1

    await office.start("gateway-2")
    for name in ("gateway", "gateway-2"):
        port = office.supervisor.children[name].report["port"]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            ready = await http.get("/readyz")
        assert ready.json()["checks"]["email.imap"] == "ok"
    store = office.parts.ledger.store
    key = store.prefix + lease_key("approvals@127.0.0.1/INBOX")
    holder = await store.client.get(key)
    assert holder

    child = office.supervisor.children.pop("gateway")
    child.signal(signal.SIGKILL)
    await child.ended.wait()
    run, card = await card_of(office, "a chair")
    await answer(server, card, "reject too many chairs")
    assert (await office.ends([run]))[run].what is What.COMPLETED
    assert office.executions().total() == 1
    assert await store.client.get(key) not in {holder, None}
