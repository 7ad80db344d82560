"""`signoff tokens`: created, listed, revoked, and shown once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Invoke


def test_token_is_created_shown_once_listed_and_revoked(
    invoke: Invoke, settings_file: Path
) -> None:
    """Only its creation prints the secret."""
    scopes = ("--scope", "approvals:read", "--scope", "approvals:decide")
    made = invoke("tokens", "create", "--person", "mara@example.com", *scopes, "--expires", "90d")
    assert made.exit_code == 0, made.output
    token = made.stdout.strip()
    name = token.split("_")[1]
    listed = invoke("tokens", "list", "--json").stdout
    (one,) = json.loads(listed)
    assert (one["id"], one["person"]) == (name, "mara")
    assert token.split("_")[2] not in listed + invoke("tokens", "list").stdout
    assert "sha256" not in one
    gone = json.loads(invoke("tokens", "revoke", name, "--json").stdout)
    assert gone["id"] == name
    assert json.loads(invoke("tokens", "list", "--json").stdout) == []
    again = invoke("tokens", "revoke", name)
    assert again.exit_code == 1
    assert "signoff tokens list" in again.stderr


def test_the_list_names_tokens_of_an_earlier_holder_of_an_id(
    invoke: Invoke, settings_file: Path
) -> None:
    """They are not accepted any more, and the list says for which address they were made."""
    invoke("tokens", "create", "--person", "mara", "--scope", "approvals:read")
    assert "not accepted" not in invoke("tokens", "list").stdout
    text = settings_file.read_text(encoding="utf-8")
    assert "mara@example.com" in text
    settings_file.write_text(
        text.replace("mara@example.com", "mara2@example.com"), encoding="utf-8"
    )
    (one,) = json.loads(invoke("tokens", "list", "--json").stdout)
    assert one["address"] == "mara@example.com"
    shown = " ".join(invoke("tokens", "list").stdout.split())
    assert "not accepted: it is of mara@example.com" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scope", "approvals:decide"), "needs a person"),
        (("--scope", "everything"), "runs:submit"),
        (("--person", "nobody", "--scope", "runs:read"), "nobody"),
        (("--person", "mara", "--scope", "runs:read", "--expires", "soon"), "soon"),
        (("--person", "mara", "--user", "x", "--scope", "runs:read"), "Make two"),
    ],
)
def test_invalid_token_is_not_created(
    invoke: Invoke, settings_file: Path, arguments: tuple[str, ...], words: str
) -> None:
    """The error says what is wrong, and nothing is stored."""
    refused = invoke("tokens", "create", *arguments)
    assert refused.exit_code in {1, 2}
    assert words in refused.stderr
    assert json.loads(invoke("tokens", "list", "--json").stdout) == []


def test_an_unknown_scope_gets_the_scopes_that_a_token_may_have(
    invoke: Invoke, settings_file: Path
) -> None:
    """The scope of instances is not among them."""
    result = invoke("--config", str(settings_file), "tokens", "create", "--scope", "everything")
    assert result.exit_code == 2
    assert "for --scope: it takes runs:submit, runs:read" in result.output
    assert "requests:submit" not in result.output
