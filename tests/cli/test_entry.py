"""`signoff health` answers quickly, with the same result as the full command."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Invoke
from signoff.broker.heartbeat import beat
from signoff.broker.ledger.ledger import Ledger
from signoff.cli.composition.kinds import name
from signoff.cli.entry import quick_health

INTERRUPTING = """\
import signal
import sys


class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)


sys.meta_path.insert(0, Interrupting())
"""
"""Presses Ctrl-C when this module is imported."""

HEAVY = {"asyncio", "celery", "pydantic", "redis", "structlog", "typer"}


@pytest.mark.parametrize("options", [[], ["--json"]])
async def test_quick_health_matches_the_full_command(
    options: list[str],
    ledger: Ledger,
    settings_file: Path,
    invoke: Invoke,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The process on this machine is alive; one on another machine does not count."""
    await beat(ledger, "worker", name())
    await beat(ledger, "channels", "elsewhere/1")
    for kind, code in (("worker", 0), ("channels", 1), ("gateway", 1)):
        assert quick_health(["--config", str(settings_file), "health", kind, *options]) == code
        said = capsys.readouterr().out
        whole = await asyncio.to_thread(invoke, "health", kind, *options)
        assert (whole.stdout, whole.exit_code) == (said, code)
        assert (name() in said) == (kind == "worker")


async def test_quick_health_imports_few_modules(ledger: Ledger, settings_file: Path) -> None:
    """Imports made up most of the cost of a health check."""
    await beat(ledger, "worker", name())
    code = (
        "import sys; from signoff.cli.entry import quick_health; "
        "assert quick_health(['health', 'worker']) == 0; print(*sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=settings_file.parent, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    assert not HEAVY & set(said.decode().split())


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "list"],
        ["health"],
        ["health", "--help"],
        ["health", "mailbox"],
        ["health", "worker", "--verbose"],
        ["--config", "nowhere.toml", "health", "worker"],
    ],
)
def test_quick_health_leaves_other_arguments_to_the_command(
    words: list[str], settings_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The full command has the error messages."""
    assert quick_health(words) is None
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SIGNOFF_REDIS__URL", "redis://127.0.0.1:1/0"),
        ("SIGNOFF_REDIS__URL", "unix:///nowhere"),
        ("SIGNOFF_REDIS__URL", "redis://127.0.0.1:6379/0?protocol=3"),
        ("SIGNOFF_REDIS", '{"url": "redis://127.0.0.1:6379/0"}'),
        ("SIGNOFF_REDIS__URL_FILE", "/run/secrets/redis"),
    ],
)
def test_quick_health_leaves_unusual_settings_to_the_command(
    variable: str, value: str, settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreachable Redis, URLs with options, and values from other places."""
    monkeypatch.setenv(variable, value)
    assert quick_health(["health", "worker"]) is None


async def test_the_environment_goes_before_the_file(
    ledger: Ledger,
    settings_file: Path,
    prefix: str,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This is the order of all settings."""
    await beat(ledger, "worker", name())
    wrong = '[redis]\nurl = "redis://127.0.0.1:1/0"\n'
    await asyncio.to_thread(settings_file.write_text, wrong)
    monkeypatch.setenv("SIGNOFF_REDIS__URL", redis_url)
    monkeypatch.setenv("signoff_redis__prefix", prefix)
    assert quick_health(["health", "worker"]) == 0


def test_quick_health_leaves_an_invalid_file_to_the_command(settings_file: Path) -> None:
    """The full command names the line."""
    settings_file.write_text("[redis\n")
    assert quick_health(["health", "worker"]) is None


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("signoff.cli.tree", "demo"),
        ("signoff.cli.commands.demo", "demo"),
        ("signoff.cli.demo.demo", "demo"),
        ("signoff.cli.start", "gateway"),
    ],
)
def test_ctrl_c_during_an_import_ends_the_command_without_a_traceback(
    module: str, command: str, tmp_path: Path
) -> None:
    """Imports take most of the first moments of a command."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING.format(module=module))
    places = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "signoff.cli", command],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": places},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("command", "umask"),
    [
        ("", 0o77),
        ("runs list", 0o77),
        ("worker", 0o77),
        ("init", 0o77),
        ("policy test", 0o22),
        ("mcp gate", 0o22),
        ("--config signoff.toml policy test", 0o22),
    ],
)
def test_only_commands_without_secrets_keep_the_umask(command: str, umask: int) -> None:
    """`signoff mcp gate` starts the caller's server, whose files are the caller's too."""
    code = (
        "import os, sys; from signoff.cli.tree import run\n"
        f"sys.argv = ['signoff', *{command.split()!r}, '--help']\n"
        "try:\n    run()\n"
        "except SystemExit:\n    sys.exit(os.umask(0))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], umask=0o022, check=False, stdout=subprocess.DEVNULL
    )
    assert done.returncode == umask
