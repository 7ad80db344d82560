"""`signoff aap`: instances are added, listed, rotated and removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Invoke
from signoff.cli.config.check import check
from signoff.cli.config.settings import Settings


def test_an_instance_is_added_rotated_and_removed(invoke: Invoke, settings_file: Path) -> None:
    """The client gets two lines, the token is shown once, and a taken name is refused."""
    made = invoke("aap", "instance", "add", "codex", "--user", "riley@example.com")
    assert made.exit_code == 0, made.output
    url, token = (line.partition("=")[2] for line in made.stdout.splitlines())
    assert url.endswith("/aap")
    assert "enabled = true" in made.stderr
    listed = invoke("aap", "instance", "list", "--json").stdout
    (one,) = json.loads(listed)
    assert (one["name"], one["app"], one["user"]) == ("codex", "codex", "riley@example.com")
    assert one["token_id"] in token
    secret = token.rpartition("_")[2]
    assert secret not in listed + invoke("aap", "instance", "list").stdout
    assert invoke("aap", "instance", "add", "codex").exit_code == 2
    fresh = json.loads(invoke("aap", "instance", "rotate", "codex", "--json").stdout)
    assert fresh["token"] != token
    assert [found["id"] for found in json.loads(invoke("tokens", "list", "--json").stdout)] == [
        fresh["token"].split("_")[1]
    ]
    assert invoke("aap", "instance", "remove", one["id"]).exit_code == 0
    assert json.loads(invoke("aap", "instance", "list", "--json").stdout) == []
    assert json.loads(invoke("tokens", "list", "--json").stdout) == []


def test_tokens_create_refuses_instance_tokens_and_names_the_command(
    invoke: Invoke, settings_file: Path
) -> None:
    """`signoff tokens` names the command that makes one."""
    refused = invoke("tokens", "create", "--scope", "requests:submit", "--user", "x")
    assert refused.exit_code == 1
    assert "signoff aap instance add" in refused.stderr


@pytest.mark.parametrize(("after", "fine"), [("7d", False), ("8d", True)])
def test_requests_are_kept_for_eight_days(after: str, fine: bool) -> None:
    """Eight days: seven after the decision, and one after its notification."""
    settings = Settings.model_validate({"aap": {"enabled": True}, "retention": {"after": after}})
    faults = [one for one in check(settings) if "retention" in one.key]
    assert (faults == []) is fine
