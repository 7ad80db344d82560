"""The settings of a mailbox, and the invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from signoff.channels.email.imap.settings import ImapSettings
from signoff.channels.email.settings import EmailSettings
from signoff.cli.config.check import check
from signoff.cli.config.settings import Settings, load_settings

PLAIN = {"host": "imap.example.com", "username": "approvals@example.com", "password": "hunter2"}
OAUTH = {"token_url": "https://issuer.example/token", "client_id": "c", "client_secret": "shh"}


def by_token(**oauth: Any) -> dict[str, Any]:
    """Return settings with a token instead of a password."""
    return {key: PLAIN[key] for key in ("host", "username")} | {"oauth": OAUTH | oauth}


def test_a_mailbox_is_read_only_if_configured() -> None:
    """By default no mailbox is read and the gateway listens for mail; both can be set."""
    assert EmailSettings().imap is None
    assert EmailSettings().inbound.listen
    imap = ImapSettings.model_validate(PLAIN)
    assert (imap.security, imap.real_port, imap.folder) == ("tls", 993, "INBOX")
    assert imap.idle < 29 * 60
    assert imap.mailbox == "approvals@example.com@imap.example.com/INBOX"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"security": "none"}, "unencrypted"),
        ({"oauth": OAUTH}, "and not both"),
        ({"password": "a\r\nX LOGOUT"}, "password has a line break"),
        ({"username": "a\0b"}, "username has a line break"),
        ({"folder": "INBOX\r\n"}, "folder has a line break"),
        ({"username": ""}, "username"),
        ({"idle": 29 * 60}, "idle"),
        ({"poll": 0}, "poll"),
    ],
)
def test_invalid_or_unsafe_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    """A setting that cannot work, or is not safe, is refused when the settings are read."""
    with pytest.raises(ValidationError, match=text):
        ImapSettings.model_validate(PLAIN | settings)


@pytest.mark.parametrize(
    ("oauth", "text"),
    [
        ({"token_url": "http://issuer.example/token"}, "is not a URL like https"),
        ({"token_url": "issuer.example"}, "is not a URL like https"),
        ({"client_id": ""}, "client_id"),
    ],
)
def test_invalid_or_unsafe_token_settings_are_refused(oauth: dict[str, Any], text: str) -> None:
    """Secrets are sent encrypted, and the client has to be authenticated."""
    with pytest.raises(ValidationError, match=text):
        ImapSettings.model_validate(by_token(**oauth))


def test_secrets_are_not_printed() -> None:
    """Printed settings do not contain secrets."""
    for settings in (PLAIN, by_token(refresh_token="r3fresh")):
        imap = ImapSettings.model_validate(settings)
        for text in (repr(imap), imap.model_dump_json()):
            assert not any(secret in text for secret in ("hunter2", "shh", "r3fresh"))


def test_secrets_are_read_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the public part and the environment the secrets; together they are one table."""
    file = tmp_path / "signoff.toml"
    file.write_text(
        '[email.imap]\nhost = "imap.example.com"\nusername = "a@example.com"\n'
        '[email.imap.oauth]\ntoken_url = "https://issuer.example/token"\nclient_id = "c"\n'
    )
    monkeypatch.setenv("SIGNOFF_EMAIL__IMAP__OAUTH__REFRESH_TOKEN", "r3fresh")
    imap = load_settings(file).email.imap
    assert imap is not None
    assert imap.oauth is not None
    assert imap.oauth.refresh_token.get_secret_value() == "r3fresh"


@pytest.mark.parametrize(
    ("email", "key"),
    [
        ({"imap": PLAIN | {"security": "none", "insecure": True}}, "email.imap.security"),
        ({"inbound": {"listen": False}}, "email.inbound.listen"),
    ],
)
def test_questionable_settings_produce_a_warning(email: dict[str, Any], key: str) -> None:
    """Settings that work but are probably not intended get a warning."""
    faults = check(Settings.model_validate({"email": email}))
    assert key in [fault.key for fault in faults if fault.severity == "warning"]
