"""`signoff card` and `signoff slack`."""

from __future__ import annotations

import json
from email import message_from_string

import pytest
from typer.testing import CliRunner

from signoff.cli.main import app


def ran(*arguments: str, code: int = 0) -> str:
    """Run the command and return its output."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


KINDS = ["confirmation", "payload", "input", "long_running"]


def test_samples_for_slack() -> None:
    """Each kind is printed as the arguments of a call of the Web API."""
    made = json.loads(ran("card", "--sample", "--for", "slack", "--json"))
    assert list(made) == KINDS
    assert [one["type"] for one in made["confirmation"]["blocks"]][-2:] == ["actions", "context"]
    assert made["confirmation"]["metadata"]["event_type"] == "signoff_card"


def test_samples_for_email() -> None:
    """Each kind is printed as a mail: headers, text and HTML."""
    made = json.loads(ran("card", "--sample", "--for", "email", "--json"))
    assert list(made) == KINDS
    assert "reimburse" in made["confirmation"]["headers"]["Subject"]
    assert "<html" in made["confirmation"]["html"]
    mail = message_from_string(ran("card", "--sample", "--for", "email"))
    assert mail["Auto-Submitted"] == "auto-generated"


def test_samples_as_text() -> None:
    """The text part of the mail is printed."""
    assert "Conference in Lisbon" in ran("card", "--sample")


@pytest.mark.parametrize("arguments", [[], ["ap_x", "--sample"], ["--sample", "--for", "fax"]])
def test_wrong_arguments_are_named(arguments: list[str]) -> None:
    """Neither an id nor a sample, both of them, and an unknown form are refused."""
    ran("card", *arguments, code=2)


def test_a_manifest_for_http() -> None:
    """Slack does not accept an address without TLS."""
    made = json.loads(ran("slack", "manifest", "--url", "https://signoff.example.com"))
    assert made["settings"]["interactivity"]["request_url"].endswith("/slack/interactions")
    ran("slack", "manifest", "--url", "http://signoff.example.com", code=2)
