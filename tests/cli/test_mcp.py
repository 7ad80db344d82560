"""`signoff mcp gate`: its refusals, and the environment of its server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from starlette.requests import Request

from cli.conftest import Invoke
from signoff.channels.mcp.records import Caller
from signoff.channels.web.problems import Problem
from signoff.cli.composition.mcp import header_of, local, server_environment
from signoff.core.base.errors import ConfigError


def test_the_server_gets_no_variable_of_signoff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the variables of the file, and the gate's other variables."""
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


@pytest.mark.usefixtures("settings_file")
def test_a_wait_is_counted_by_the_clock(invoke: Invoke) -> None:
    """A duration of working time is refused, as a text that is no duration is."""
    for wait in ("4h business", "soon"):
        command = ("mcp", "gate", "--name", "crm", "--url", "http://127.0.0.1:1", "--wait", wait)
        done = invoke(*command)
        assert done.exit_code == 2
        assert done.stderr.startswith("signoff: --wait: ")


def test_header_reads_its_secret_from_a_variable() -> None:
    """An unset variable is an error, so no header is sent without its secret."""
    found = header_of("Authorization: Bearer ${T}", {"T": "hidden"})
    assert found == ("authorization", "Bearer hidden")
    for wrong in ("Authorization", "a b: c", "X: ${NONE}", "X: ${LINES}"):
        with pytest.raises(ConfigError, match="--header") as refused:
            header_of(wrong, {"LINES": "a secret\nof two lines"})
        assert "secret" not in str(refused.value)
    assert header_of("X: ${T}", {"T": "hidden\n"}) == ("x", "hidden")


@pytest.mark.parametrize(
    ("client", "name", "value"),
    [
        ("10.0.0.7", b"accept", b"*/*"),
        ("127.0.0.1", b"host", b"xn--a"),
        ("127.0.0.1", b"origin", b"http://xn--a"),
        ("127.0.0.1", b"origin", b"http://localhost:3000"),
        ("127.0.0.1", b"x-forwarded-for", b"10.0.0.7"),
    ],
)
async def test_without_tokens_only_programs_here_are_served(
    client: str, name: bytes, value: bytes
) -> None:
    """Forwarded requests and browser pages are refused."""
    headers = {b"host": b"localhost:1", name: value}
    request = Request(
        {
            "type": "http",
            "headers": list(headers.items()),
            "client": (client, 1),
            "server": ("127.0.0.1", 1),
        }
    )
    with pytest.raises(Problem) as refused:
        await local(Caller("desk", "riley", "s1", "bank"))(request)
    assert (refused.value.status, refused.value.kind) == (403, "not-local")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--name", "bank"], "Name the server"),
        (["--name", "bank", "--url", "http://x/mcp", "--", "python"], "Name the server"),
        (["--name", "b k", "--url", "http://x/mcp"], "--name"),
        (["--name", "bank", "--wait", "soon", "--", "python"], "--wait"),
        (["--name", "bank", "--url", "http://x/mcp", "--listen", "8765"], "--listen"),
        (["--name", "bank", "--url", "http://x/mcp", "--listen", "0.0.0.0:1"], "--tokens"),
        (["--name", "bank", "--url", "http://x/mcp", "--listen", "127.0.0.1:99999"], "--listen"),
        (["--name", "bank", "--url", "localhost:3000/mcp"], "--url"),
    ],
)
def test_unsupported_gate_option_is_refused(
    invoke: Invoke, settings_file: Path, given: list[str], words: str
) -> None:
    """The error names the option."""
    result = invoke("--config", str(settings_file), "mcp", "gate", *given)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("name", ["<stdin>", "<stdout>"])
def test_a_stream_that_is_no_pipe_is_refused(
    settings_file: Path, tmp_path: Path, name: str
) -> None:
    """The gate cannot wait for a file, and nobody would answer there."""
    with (tmp_path / "stream").open("w+") as file:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "signoff.cli", "--config", str(settings_file)),
                *("mcp", "gate", "--name", "crm", "--", "true"),
            ],
            stdin=file if name == "<stdin>" else subprocess.PIPE,
            stdout=file if name == "<stdout>" else subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, f"signoff: {name} is not a pipe" in done.stderr) == (2, True)
