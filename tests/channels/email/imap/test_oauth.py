"""Login to a mailbox with an OAuth token: a real HTTP issuer and a real Dovecot."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from channels.email.imap.conftest import Box, Log, Reading
from dovecot import PASSWORD
from issuer import Issuer, issuer
from ports import free_port
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.imap.oauth import Tokens
from signoff.channels.email.imap.settings import OAuthSettings
from signoff.core.base.errors import MailboxError, MailboxRefused, MailboxUnavailable

SECRETS = {"client_secret": "s3cret-of-client", "refresh_token": "r3fresh-of-owner"}


@pytest.fixture
def tokens_of(box: Box) -> Iterator[Issuer]:
    """Return an issuer of tokens for the mailbox."""
    with issuer(box.name) as made:
        yield made


def oauth(made: Issuer, **more: Any) -> dict[str, Any]:
    """Return the table [email.imap.oauth] for an issuer."""
    return {"token_url": made.url, "client_id": "signoff", **SECRETS, **more}


async def test_a_good_token_logs_in(
    box: Box, reading: Reading, tokens_of: Issuer, log: Log
) -> None:
    """XOAUTH2 works, as at Gmail and Microsoft 365; a new session uses the same token."""
    await box.deliver()
    async with reading(oauth=oauth(tokens_of, scope="https://mail.google.com/")) as reader:
        await log.read_up_to(1)
        box.server.cut()
        await log.wait("imap.reading", 2)
        assert reader.problem == ""
    assert tokens_of.asked == [
        {
            "client_id": "signoff",
            "client_secret": "s3cret-of-client",
            "scope": "https://mail.google.com/",
            "grant_type": "refresh_token",
            "refresh_token": "r3fresh-of-owner",
        }
    ]


async def test_a_refused_token_is_renewed_once(
    box: Box, reading: Reading, tokens_of: Issuer, log: Log
) -> None:
    """A token that was withdrawn or expired early is renewed without a failure."""
    tokens_of.answer = lambda form: (
        tokens_of.expired(form) if len(tokens_of.asked) == 1 else tokens_of.good(form)
    )
    async with reading(oauth=oauth(tokens_of)):
        pass
    assert len(tokens_of.asked) == 2
    assert len(log.all("imap.token_refused")) == 1
    assert log.all("imap.failed") == []


async def test_repeated_token_refusals_are_reported_and_retried_slowly(
    box: Box, reading: Reading, tokens_of: Issuer, log: Log
) -> None:
    """The second refusal is reported to a person; the next attempt comes much later."""
    tokens_of.answer = tokens_of.expired
    async with reading(oauth=oauth(tokens_of), ready="imap.failed") as reader:
        assert "refuses the login" in reader.problem
    (failed,) = log.all("imap.failed")
    assert failed["level"] == "error"
    assert failed["retry_in"] > 10
    assert len(tokens_of.asked) == 2


async def test_a_refused_refresh_is_reported_without_the_token(
    reading: Reading, tokens_of: Issuer, log: Log
) -> None:
    """If the consent was withdrawn, the issuer's message is reported without the quoted token."""
    tokens_of.answer = lambda form: (
        400,
        {
            "error": "invalid_grant",
            "error_description": f"Token {form['refresh_token']} has been\r\nrevoked.",
        },
    )
    async with reading(oauth=oauth(tokens_of), ready="imap.failed") as reader:
        problem = reader.problem
    assert "400 invalid_grant: Token [hidden] has been revoked" in problem
    assert "renew the consent (refresh_token)" in problem
    assert log.all("imap.failed")[0]["level"] == "error"
    assert log.all("imap.failed")[0]["retry_in"] > 10
    assert len(tokens_of.asked) == 1
    assert not any(secret in str(log.entries) for secret in SECRETS.values())


async def test_client_credentials_work_without_user_consent(
    reading: Reading, tokens_of: Issuer
) -> None:
    """Client credentials work, as Microsoft 365 has them for shared mailboxes."""
    table = oauth(tokens_of, scope="https://outlook.office365.com/.default")
    del table["refresh_token"]
    async with reading(oauth=table):
        pass
    assert tokens_of.asked[0]["grant_type"] == "client_credentials"


async def test_another_refresh_token_is_used_from_then_on(
    tokens_of: Issuer, ledger: Ledger
) -> None:
    """A restarted process uses it too, until the settings have a new consent."""
    tokens_of.answer = lambda _: tokens_of.good(refresh_token=f"other-{len(tokens_of.asked)}")
    settings = OAuthSettings(**oauth(tokens_of))
    for _ in range(3):
        await Tokens(settings, ledger, timeout=60).get()
    anew = OAuthSettings(**oauth(tokens_of, refresh_token="n3w"))
    await Tokens(anew, ledger, timeout=60).get()
    used = [form["refresh_token"] for form in tokens_of.asked]
    assert used == ["r3fresh-of-owner", "other-1", "other-2", "n3w"]
    (first, second) = await ledger.store.keys("consent:")
    for key in (first, second):
        found = await ledger.raw(key)
        assert found is not None
        assert "other" not in found[1]


async def test_a_token_is_renewed_before_it_expires(tokens_of: Issuer, ledger: Ledger) -> None:
    """A token with a long life is kept; one that is about to expire is not."""
    tokens = Tokens(OAuthSettings(**oauth(tokens_of)), ledger, timeout=60)
    first = await tokens.get()
    assert await tokens.get() == first
    assert len(tokens_of.asked) == 1
    tokens_of.answer = lambda _: tokens_of.good(expires_in=1e-6)
    tokens = Tokens(OAuthSettings(**oauth(tokens_of)), ledger, timeout=60)
    await tokens.get()
    await tokens.get()
    assert len(tokens_of.asked) == 3


@pytest.mark.parametrize(
    ("status", "content", "kind", "text"),
    [
        (503, b"<html>busy</html>", MailboxUnavailable, "503 no reason"),
        (429, {"error": "slow_down"}, MailboxUnavailable, "429 slow_down"),
        (401, {"error": "invalid_client"}, MailboxRefused, "401 invalid_client"),
        (302, b"", MailboxRefused, "302"),
        (200, b"not json", MailboxRefused, "without an access token"),
        (200, b"[" * 40_000, MailboxRefused, "without an access token"),
        (200, [1], MailboxRefused, "without an access token"),
        (200, {"access_token": "a\r\nb"}, MailboxRefused, "without an access token"),
        (200, {"access_token": ["x"]}, MailboxRefused, "without an access token"),
        (200, b"x" * 100_000, MailboxRefused, "more than a token"),
    ],
)
async def test_each_issuer_error_is_temporary_or_permanent(
    tokens_of: Issuer,
    ledger: Ledger,
    *,
    status: int,
    content: object,
    kind: type[MailboxError],
    text: str,
) -> None:
    """A temporary error is not an alarm, and a permanent error is; nothing else fails."""
    tokens_of.answer = lambda _: (status, content)
    with pytest.raises(MailboxError, match=text) as caught:
        await Tokens(OAuthSettings(**oauth(tokens_of)), ledger, timeout=60).get()
    assert type(caught.value) is kind


async def test_an_issuer_that_is_away(ledger: Ledger) -> None:
    """The log names the issuer, and the request is tried again."""
    made = Issuer("x", url=f"http://127.0.0.1:{free_port()}/token")
    with pytest.raises(MailboxUnavailable, match=r"issuer of OAuth tokens at 127\.0\.0\.1"):
        await Tokens(OAuthSettings(**oauth(made)), ledger, timeout=60).get()


async def test_a_wrong_password_is_reported_and_retried_slowly(reading: Reading, log: Log) -> None:
    """A client that keeps trying is locked out by the provider."""
    async with reading(password="wrong-one", ready="imap.failed") as reader:
        assert "refuses the login" in reader.problem
    assert log.all("imap.failed")[0]["retry_in"] > 10
    assert "wrong-one" not in json.dumps(log.entries, default=str)


@pytest.mark.parametrize("login", ["password", "token"])
async def test_no_library_logs_secrets(
    box: Box,
    reading: Reading,
    tokens_of: Issuer,
    log: Log,
    caplog: pytest.LogCaptureFixture,
    *,
    login: str,
) -> None:
    """The log never has a password, an access token or a card's token."""
    caplog.set_level(logging.DEBUG)
    await box.deliver(token="abcdefghijklmnopqrstuvwxyz")
    async with reading(**({} if login == "password" else {"oauth": oauth(tokens_of)})):
        await log.read_up_to(1)
    text = caplog.text + json.dumps(log.entries, default=str)
    for secret in (PASSWORD, *SECRETS.values(), "abcdefghijklmnopqrstuvwxyz", "eyJ"):
        assert secret not in text.replace(f"{box.name}", "")
