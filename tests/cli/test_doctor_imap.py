"""The doctor's check of a mailbox: it logs in and looks, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovecot import PASSWORD, Dovecot, dovecot
from issuer import issuer
from lmtp import deliver
from ports import free_port
from signoff.channels.email.settings import EmailSettings
from signoff.cli.config.settings import load_settings
from signoff.cli.doctor.diagnosis import diagnose
from signoff.cli.doctor.finding import Finding
from signoff.cli.doctor.mail import answer_paths


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    """A mail server."""
    with dovecot() as running:
        yield running


@pytest.fixture
def file(tmp_path: Path, server: Dovecot, redis_url: str, prefix: str) -> Path:
    """Return settings with a mailbox."""
    made = tmp_path / "signoff.toml"
    made.write_text(
        f"""\
[redis]
url = "{redis_url}"
prefix = "{prefix}"
[email.smtp]
port = {free_port()}
[email.imap]
host = "127.0.0.1"
port = {server.imap}
security = "none"
username = "approvals"
"""
    )
    return made


async def look(file: Path) -> list[Finding]:
    """Return the findings about the mailbox."""
    return [one for one in await diagnose(load_settings(file)) if one.about == "imap"]


async def test_a_mailbox_that_can_be_read(
    file: Path, server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Login, folder, push and keyword are reported; no message changes."""
    await deliver(server.lmtp, "approvals", b"Subject: x\r\n\r\nhello\r\n")
    monkeypatch.setenv("SIGNOFF_EMAIL__IMAP__PASSWORD", PASSWORD)
    (finding,) = await look(file)
    assert finding.level == "good"
    for text in ("the login works", "INBOX exists", "(IDLE)", "the keyword $Signoff"):
        assert text in finding.text
    monkeypatch.setenv("SIGNOFF_EMAIL__IMAP__IDLE", "0")
    assert "Signoff polls it every 30 seconds" in (await look(file))[0].text
    names = [one.name for one in server.mailbox("approvals").glob("*/*:2,*")]
    assert [name.partition(":2,")[2] for name in names] == [""]


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("PASSWORD", "wrong", "refuses the login"),
        ("FOLDER", "Nowhere", "does not open the folder 'Nowhere'"),
        ("PORT", "1", "cannot be reached"),
        ("SECURITY", "tls", "cannot be reached"),
        ("CA_FILE", "/nowhere.pem", "email.imap.ca_file"),
    ],
)
async def test_doctor_reports_imap_problems_with_the_reason(
    file: Path, monkeypatch: pytest.MonkeyPatch, *, variable: str, value: str, text: str
) -> None:
    """It is an error, with the place and the reason."""
    monkeypatch.setenv("SIGNOFF_EMAIL__IMAP__PASSWORD", PASSWORD)
    if variable == "CA_FILE":
        monkeypatch.setenv("SIGNOFF_EMAIL__IMAP__SECURITY", "tls")
    monkeypatch.setenv(f"SIGNOFF_EMAIL__IMAP__{variable}", value)
    (finding,) = await look(file)
    assert finding.level == "broken"
    assert text in finding.text
    assert PASSWORD not in finding.text


async def test_a_token_is_asked_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuer is contacted, so a withdrawn consent is found before a mail waits."""
    with issuer("approvals") as made:
        table = {"TOKEN_URL": made.url, "CLIENT_ID": "signoff", "REFRESH_TOKEN": "r3fresh"}
        for key, value in table.items():
            monkeypatch.setenv(f"SIGNOFF_EMAIL__IMAP__OAUTH__{key}", value)
        (finding,) = await look(file)
        assert finding.level == "good"
        assert "a token is issued and accepted" in finding.text
        made.answer = lambda _: (400, {"error": "invalid_grant"})
        (finding,) = await look(file)
        assert finding.level == "broken"
        assert "400 invalid_grant" in finding.text


def test_doctor_names_each_active_way_for_answers() -> None:
    """Each active way is named."""
    imap = {"host": "imap.example.com", "username": "a@example.com", "password": "x"}
    ways: dict[str, dict[str, Any]] = {
        "come in at 127.0.0.1:8025 by SMTP": {},
        "by SMTP and are read from the mailbox of a@example.com": {"imap": imap},
        "localhost are read from the mailbox": {"imap": imap, "inbound": {"listen": False}},
        "no answer comes in": {"inbound": {"listen": False}},
    }
    for text, email in ways.items():
        assert text in answer_paths(EmailSettings.model_validate(email))
