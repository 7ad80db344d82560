"""The settings of the email channel, and the invalid ones."""

from typing import Any

import pytest
from pydantic import ValidationError

from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.settings import EmailSettings, SmtpSettings
from signoff.core.base.networks import is_loopback


def test_the_defaults_send_to_this_machine() -> None:
    """Without settings, mail goes to a local server, and answers arrive on this machine."""
    settings = EmailSettings()
    assert (settings.smtp.host, settings.smtp.real_port) == ("127.0.0.1", 25)
    assert (settings.inbound.protocol, settings.inbound.host) == ("smtp", "127.0.0.1")
    assert (settings.sender_name, settings.sender_address) == (
        "Signoff",
        "approvals@signoff.localhost",
    )
    assert settings.domain == "signoff.localhost"
    assert settings.reply_address("abc") == "approvals+abc@signoff.localhost"


@pytest.mark.parametrize(("security", "port"), [("starttls", 587), ("tls", 465), ("none", 25)])
def test_the_usual_ports(security: str, port: int) -> None:
    """If no port is set, it follows from the security."""
    smtp = SmtpSettings(host="mx.example.com", security=security, insecure=True)
    assert smtp.real_port == port
    assert smtp.model_copy(update={"port": 2525}).real_port == 2525


def test_no_security_only_to_this_machine() -> None:
    """Tokens leave the machine unencrypted only if the settings insist."""
    with pytest.raises(ValidationError, match="unencrypted"):
        SmtpSettings(host="mx.example.com")
    assert SmtpSettings(host="mx.example.com", insecure=True).insecure
    assert SmtpSettings(host="localhost").security == "none"


def test_a_password_without_a_user_name_is_refused() -> None:
    """A password needs a name; the password may be in the environment of another process."""
    with pytest.raises(ValidationError, match="needs a username"):
        SmtpSettings(password="x")
    assert SmtpSettings(username="x").username


def test_a_password_is_not_printed() -> None:
    """Printed settings do not contain the password."""
    smtp = SmtpSettings(username="x", password="hunter2")
    assert "hunter2" not in repr(smtp)
    assert "hunter2" not in smtp.model_dump_json()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mailbox", "approvals"),
        ("mailbox", "a+b@example.com"),
        ("mailbox", "a@b@c"),
        ("sender", "nobody"),
        ("sender", "Signoff <approvals@example.com"),
        ("sender", "Signoff\r\nBcc: x <approvals@example.com>"),
        ("sender", "Signoff <a@example.com> <b@example.com>x"),
        ("smtp", {"port": 70000}),
        ("smtp", {"hots": "x"}),
        ("smtp", {"timeout": 0}),
        ("inbound", {"protocol": "imap"}),
        ("inbound", {"max_bytes": 10}),
    ],
)
def test_invalid_settings_are_refused(
    key: str, value: str | dict[str, int] | dict[str, str]
) -> None:
    """An invalid setting is refused when it is read, not at the first mail."""
    with pytest.raises(ValidationError, match=key):
        EmailSettings(**{key: value})


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("mail.localhost", True),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_only_loopback_is_the_local_machine(host: str, expected: bool) -> None:
    """Only loopback counts as this machine."""
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("parts", "required"),
    [
        ({}, "token+from"),
        ({"mailbox": "approvals@example.com"}, "token+from+dmarc"),
        ({"authentication": {"dkim": True}}, "token+from+dmarc"),
        ({"authentication": {"authserv_id": "mx.example.com"}}, "token+from+dmarc"),
        ({"mailbox": "a@example.com", "authentication": {"dkim": False}}, "token+from"),
        ({"mailbox": "a@example.com", "authentication": {"require": "token"}}, "token"),
    ],
)
def test_the_most_is_required_that_can_be_proven(parts: dict[str, Any], required: str) -> None:
    """A local mailbox is for development; any other requires an aligned pass."""
    assert EmailSettings(**parts).required == required


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authserv_id", "mx.example.com; dmarc=pass"),
        ("authserv_id", "mx example"),
        ("relays", ["10.0.0.1/8"]),
        ("relays", ["mx.example.com"]),
        ("nameservers", ["dns.example.com"]),
        ("nameservers", ["192.0.2.1:0"]),
        ("nameservers", ["192.0.2.1:x"]),
        ("require", "dmarc"),
    ],
)
def test_invalid_names_networks_and_servers_are_refused(key: str, value: str | list[str]) -> None:
    """Names, networks and servers have to be valid when the settings are read."""
    with pytest.raises(ValidationError):
        EmailSettings(authentication={key: value})
    good = {"relays": ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"]}
    good["nameservers"] = ["192.0.2.1", "192.0.2.1:5353", "2001:db8::1", "[2001:db8::1]:5353"]
    settings = EmailSettings(authentication=good)
    assert Authenticator.of(settings.authentication, dkim=settings.verifies_dkim)
