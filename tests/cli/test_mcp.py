"""`signoff mcp gate`: what it refuses, and what its server gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Invoke
from signoff.cli.composition.mcp import header_of, server_environment
from signoff.core.base.errors import ConfigError


def test_the_server_gets_no_variable_of_signoff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets those of the file, and the others of the gate."""
    monkeypatch.setenv("SIGNOFF_REDIS__URL", "redis://secret")
    monkeypatch.setenv("EDITOR", "ed")
    file = tmp_path / "bank.env"
    file.write_text("# the bank\n\nBANK_TOKEN=a=b\n")
    env = server_environment(file)
    assert (env["BANK_TOKEN"], env["EDITOR"]) == ("a=b", "ed")
    assert not [name for name in env if name.startswith("SIGNOFF_")]
    file.write_text("BANK TOKEN\n")
    with pytest.raises(ConfigError, match="line 1"):
        server_environment(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        server_environment(tmp_path / "none")


def test_a_header_takes_its_secret_from_a_variable() -> None:
    """A variable that is not set is an error, and not a header without a secret."""
    found = header_of("Authorization: Bearer ${T}", {"T": "hidden"})
    assert found == ("authorization", "Bearer hidden")
    for wrong in ("Authorization", "a b: c", "X: ${NONE}"):
        with pytest.raises(ConfigError, match="--header"):
            header_of(wrong, {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--name", "bank"], "Name the server"),
        (["--name", "bank", "--url", "http://x/mcp", "--", "python"], "Name the server"),
        (["--name", "b k", "--url", "http://x/mcp"], "--name"),
        (["--name", "bank", "--wait", "soon", "--", "python"], "--wait"),
        (["--name", "bank", "--url", "http://x/mcp", "--listen", "8765"], "--listen"),
        (["--name", "bank", "--url", "http://x/mcp", "--listen", "0.0.0.0:1"], "--tokens"),
    ],
)
def test_what_the_gate_cannot_do_is_refused(
    invoke: Invoke, settings_file: Path, given: list[str], words: str
) -> None:
    """With the option that is wrong."""
    result = invoke("--config", str(settings_file), "mcp", "gate", *given)
    assert result.exit_code == 2
    assert words in result.stderr
