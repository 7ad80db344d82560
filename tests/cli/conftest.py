"""Fixtures of the command line's tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer import testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from signoff.broker.server.embedded import EmbeddedRedis

EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"

SETTINGS = """\
[agents]
folder = "{agents}"
[redis]
url = "{redis}"
prefix = "{prefix}"
[gateway]
port = 0
[email.smtp]
port = {smtp}
[email.inbound]
port = 0
[log]
format = "json"
[[people]]
id = "mara"
name = "Mara Lind"
email = "mara@example.com"
[[people]]
id = "cleo"
name = "Cleo Park"
email = "cleo@example.com"
[[people]]
id = "riley"
name = "Riley Voss"
email = "riley@example.com"
[[policies]]
name = "expenses"
when = "tool == 'reimburse'"
ask = ["mara", "cleo"]
within = "4h"
[default]
ask = ["cleo"]
"""

Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """Return a Redis whose Celery queues no other test uses."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), fsync="everysec") as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def built_once() -> Iterator[None]:
    """Build the commands once, because the runner builds them for each call, which is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "_get_command", cache(get_command))
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the user's own settings, and use a working directory for each test.

    The terminal is wide, because otherwise the length of a temporary path decides where the lines
    of a message break.
    """
    for name in list(os.environ):
        if name.upper().startswith("SIGNOFF_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings_file(tmp_path: Path, redis_url: str, prefix: str) -> Path:
    """Return a signoff.toml in the working directory, for the ledger of this test."""
    file = tmp_path / "signoff.toml"
    file.write_text(SETTINGS.format(agents=EXAMPLES, redis=redis_url, prefix=prefix, smtp=9))
    return file


@pytest.fixture
def invoke() -> Invoke:
    """Return a function that runs a `signoff` command in this process."""
    from signoff.cli.main import app

    runner = CliRunner()

    def run(*arguments: str, **options: Any) -> Result:
        return runner.invoke(app, list(arguments), **options)

    return run


@pytest.fixture(autouse=True)
def told_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show a command's output when an assertion about its result fails."""
    monkeypatch.setattr(Result, "__repr__", lambda one: f"{one.exception!r} after:\n{one.output}")
