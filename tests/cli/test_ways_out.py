"""Suggestions in errors of settings, and commands that do not need all settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Invoke
from signoff.cli.config.check import check
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import load_settings

PEOPLE = '[[people]]\nid = "mara"\nemail = "mara@example.com"\n[default]\nask = ["mara"]\n'
POLICY = '[[policies]]\nname = "expenses"\n'

EXPORTS = {
    "page": (
        '[inbox]\nurl = "https://a.example.com"\n',
        'export SIGNOFF_INBOX__SECRET_KEY="$(openssl rand -base64 32)"',
    ),
    "smtp": (
        '[email.smtp]\nhost = "s.example.com"\nsecurity = "tls"\nusername = "me"\n',
        'export SIGNOFF_EMAIL__SMTP__PASSWORD="…"',
    ),
    "smtp by token": (
        (
            '[email.smtp]\nhost = "s.example.com"\nsecurity = "tls"\nusername = "me"\n'
            '[email.smtp.oauth]\ntoken_url = "https://i.example.com/t"\nclient_id = "c"\n'
        ),
        'export SIGNOFF_EMAIL__SMTP__OAUTH__CLIENT_SECRET="…"',
    ),
    "imap": (
        '[email.imap]\nhost = "i.example.com"\nusername = "me"\n',
        'export SIGNOFF_EMAIL__IMAP__PASSWORD="…"',
    ),
    "slack": (
        POLICY + 'ask = ["mara"]\nchannels = ["slack"]\n',
        'export SIGNOFF_SLACK__BOT_TOKEN="xoxb-…"',
    ),
    "metrics": (
        '[gateway]\nhost = "0.0.0.0"\n[metrics]\nenabled = true\n',
        'export SIGNOFF_METRICS__TOKEN="$(openssl rand -base64 32)"',
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the working directory with an empty folder of agents."""
    (tmp_path / "agents").mkdir()
    return tmp_path


def write(folder: Path, text: str) -> Path:
    """Write the settings."""
    file = folder / "signoff.toml"
    file.write_text(PEOPLE + text)
    return file


@pytest.mark.parametrize("name", EXPORTS)
def test_missing_secret_error_suggests_a_shell_command(name: str, folder: Path) -> None:
    """The suggestion is a shell command; commands that do not need the secret still work."""
    text, line = EXPORTS[name]
    faults = [one for one in check(load_settings(write(folder, text))) if one.severity == "error"]
    assert [line in one.remedy for one in faults] == [True]


@pytest.mark.parametrize("name", [name for name in EXPORTS if name != "slack"])
@pytest.mark.parametrize("command", [("policy", "explain", "--tool", "pay"), ("mailbox", "list")])
def test_a_command_asks_for_no_secret_of_a_server(
    name: str, command: tuple[str, ...], folder: Path, invoke: Invoke
) -> None:
    """Policies can be tested and mails listed on a machine without the passwords."""
    write(folder, EXPORTS[name][0])
    done = invoke(*command)
    assert done.exit_code == 0, done.output


def test_a_policy_is_called_by_its_name(folder: Path) -> None:
    """This holds for all errors; programs still get the number as the key."""
    text = '[[policies]]\nname = "first"\nask = ["mara"]\nwhen = "true == true"\n' + POLICY
    (fault,) = check(load_settings(write(folder, text + 'ask = ["marra"]\n')))
    assert fault.key == "policies[1].ask"
    assert "policy 'expenses': ask: 'marra' is not the id" in str(fault)
    with pytest.raises(ConfigErrors) as caught:
        load_settings(write(folder, text + 'ask = ["mara"]\nwithn = "1h"\n'))
    assert "policy 'expenses': withn: " in str(caught.value)
    with pytest.raises(ConfigErrors) as caught:
        load_settings(write(folder, '[[policies]]\nask = ["mara"]\n'))
    assert "policies[0].name: 'name' is missing" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("requester.boss", "requester.manager"),
        ("asked.lead", "asked.manager"),
        ("requestor.manager", "requester.manager"),
        ("finance", "queue:finance"),
        ("marra", "mara"),
    ],
)
def test_unknown_approver_error_suggests_a_known_name(
    asked: str, suggested: str, folder: Path
) -> None:
    """People, queues and managers are searched."""
    text = f'{POLICY}ask = ["{asked}"]\n[[queues]]\nname = "finance"\nmembers = ["mara"]\n'
    fault = check(load_settings(write(folder, text)))[0]
    assert fault.remedy == f"Did you mean {suggested!r}?"


def test_errors_are_json_where_the_answer_would_be(folder: Path, invoke: Invoke) -> None:
    """Errors of settings, of the command line, and of missing records."""
    write(folder, POLICY)
    for arguments, code, kind, words in (
        (("people", "list", "--json"), 2, "ConfigErrors", "'ask'"),
        (("runs", "list", "--json", "--limit", "x"), 2, "BadParameter", "--limit"),
        (("runs", "show", "--json"), 2, "MissingParameter", "ID"),
        (("--config", "none.toml", "runs", "list", "--json"), 2, "ConfigErrors", "none.toml"),
    ):
        done = invoke(*arguments)
        assert done.exit_code == code, done.output
        error = json.loads(done.stdout)["error"]
        assert error["type"] == kind
        assert words in error["message"]
