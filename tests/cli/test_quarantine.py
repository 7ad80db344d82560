"""`signoff mail quarantine`, on a real ledger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Invoke
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.email.inbound.quarantine import quarantine_mail
from signoff.channels.email.inbound.stored import load, mail_id, mail_key, store

TOKEN = "abcdefghijklmnopqrstuvwxyz"
ADDRESS = f"approvals+{TOKEN}@signoff.localhost"
RAW = (
    b"From: M\x1b[31mara <mara@example.com>\r\nTo: <" + ADDRESS.encode() + b">\r\n"
    b"Subject: \xe2\x80\xaegpj.exe\r\n\r\nsecret words\r\n"
)


@pytest.fixture
def on_ledger(settings_file: Path, redis_url: str, prefix: str) -> Callable[..., Any]:
    """Return a function that works with the commands' ledger."""
    assert settings_file.exists()

    def run(work: Callable[[Ledger], Any]) -> Any:
        async def with_ledger() -> Any:
            ledger = Ledger(Store.open(redis_url, prefix=prefix))
            try:
                return await work(ledger)
            finally:
                await ledger.close()

        return asyncio.run(with_ledger())

    return run


@pytest.fixture
def mail(on_ledger: Callable[..., Any]) -> str:
    """Return the id of a mail in quarantine."""
    envelope: dict[str, Any] = {"sender": "mara@example.com", "recipients": [ADDRESS]}

    async def fill(ledger: Ledger) -> str:
        await store(ledger, RAW, **envelope)
        (item,) = (await ledger.claim("intake")).items
        found = await load(ledger, str(item.body["mail"]))
        assert found is not None
        now = await ledger.now()
        words = f"a problem with {ADDRESS}"
        await ledger.commit(
            await quarantine_mail(ledger, Change().ack(item), found, words, now=now)
        )
        return found.id

    return str(on_ledger(fill))


def test_the_list_names_sender_and_problem_and_no_token(invoke: Invoke, mail: str) -> None:
    """As a table and as JSON; control characters are escaped."""
    for arguments in ((), ("--json",)):
        done = invoke("mail", "quarantine", "list", *arguments)
        assert done.exit_code == 0, done.output
        assert TOKEN not in done.output
        assert "\x1b" not in done.output
        assert "mara@example.com" in done.output
        assert "a problem with approvals+[token]" in done.output
    (one,) = json.loads(done.output)
    assert (one["id"], one["size"]) == (mail, len(RAW))
    assert one["subject"].isascii()


def test_quarantined_mail_is_shown_with_its_header(invoke: Invoke, mail: str) -> None:
    """Its text is only shown with --raw."""
    for arguments in ((), ("--json",)):
        done = invoke("mail", "quarantine", "show", mail[:10], *arguments)
        assert done.exit_code == 0, done.output
        assert "Subject: " in done.output
        for hidden in (TOKEN, "\x1b", "\u202e", "secret words"):
            assert hidden not in done.output
    assert invoke("mail", "quarantine", "show", mail, "--raw").stdout_bytes == RAW


def test_retry_returns_the_mail_to_the_intake(
    invoke: Invoke, mail: str, on_ledger: Callable[..., Any]
) -> None:
    """The mail is unchanged, and leaves the quarantine."""
    done = invoke("mail", "quarantine", "retry", mail[:10], "--reason", "mended", "--by", "ops")
    assert done.exit_code == 0, done.output
    assert "will be processed again" in done.output
    key = mail_key(mail_id(RAW, sender="mara@example.com", recipients=[ADDRESS]))
    found = on_ledger(lambda ledger: load(ledger, key))
    assert (found.raw, found.sender, found.recipients) == (RAW, "mara@example.com", (ADDRESS,))
    assert on_ledger(lambda ledger: ledger.backlog())["intake"] == 1
    assert "No mail" in invoke("mail", "quarantine", "list").output


def test_drop_deletes_the_mail_and_needs_a_reason(invoke: Invoke, mail: str) -> None:
    """It needs a reason; a missing mail is an error that says so."""
    assert invoke("mail", "quarantine", "drop", mail).exit_code != 0
    done = invoke("mail", "quarantine", "drop", mail, "--reason", "a bomb", "--json")
    assert json.loads(done.output)["id"] == mail
    gone = invoke("mail", "quarantine", "drop", mail, "--reason", "a bomb")
    assert gone.exit_code != 0
    assert json.loads(invoke("mail", "quarantine", "list", "--json").output) == []
    exported = invoke("audit", "export")
    assert "mail_dropped" in exported.output
