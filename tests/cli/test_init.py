"""`signoff init`, and how commands find the services of `signoff up`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Invoke
from signoff.cli.composition.first_steps import first_steps
from signoff.cli.config.settings import Settings, load_settings
from signoff.cli.config.started import alone, provide, provided
from signoff.core.base.errors import ConfigError


def test_init_writes_valid_settings_and_passing_cases(invoke: Invoke, tmp_path: Path) -> None:
    """It writes settings, an agent and cases, and prints the next commands."""
    done = invoke("init", "--yes")
    assert done.exit_code == 0, done.output
    assert "Start:  signoff up\nPage:   http://localhost:8080/" in done.stdout
    assert "signoff inbox link mara" in done.stdout
    assert 'signoff run finance "Reimburse me 2500' in done.stdout
    assert "--user nora@example.com" in done.stdout
    assert 'signoff mailbox reply last "approve"' in done.stdout
    assert (tmp_path / "agents" / "finance" / "agent.py").is_file()
    assert (tmp_path / ".gitignore").read_text() == ".signoff/\n"
    assert invoke("config", "check").exit_code == 0
    assert "3 passed" in invoke("policy", "test").stdout


@pytest.mark.parametrize(
    ("name", "email", "person"),
    [
        ("Ana Díaz", "ana@firm.example", "ana"),
        ('Jo "the boss" O\\Neil', "Jo.O+x@firm.example", "jo.o"),
        ("Nora Second", "nora@firm.example", "approver"),
        ("Ünal", "ünal@firm.example", "approver"),
    ],
)
def test_init_writes_the_given_approver_name(
    invoke: Invoke, tmp_path: Path, name: str, email: str, person: str
) -> None:
    """The name is in the settings and in the cases, whatever characters it has."""
    done = invoke("init", "--name", name, "--email", email)
    assert done.exit_code == 0, done.output
    first = tomllib.loads((tmp_path / "signoff.toml").read_text())["people"][0]
    assert first == {"id": person, "name": name, "email": email}
    assert "3 passed" in invoke("policy", "test").stdout


def test_init_uses_existing_agents(invoke: Invoke, tmp_path: Path) -> None:
    """No example is added to existing agents, and the printed run uses one of them."""
    (tmp_path / "mine" / "helper").mkdir(parents=True)
    (tmp_path / "mine" / "helper" / "agent.py").touch()
    done = invoke("init", "--agents", "mine")
    assert "signoff run helper" in done.stdout
    assert not (tmp_path / "agents").exists()
    assert load_settings().agents_folder == tmp_path / "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--email", "nobody"], "--email 'nobody'"),
        (["--email", "nora@example.com"], "nobody approves their own request"),
        (["--agents", "none"], "none is not a folder"),
    ],
)
def test_init_refuses_invalid_input_before_writing(
    invoke: Invoke, tmp_path: Path, arguments: list[str], words: str
) -> None:
    """The folder stays empty."""
    done = invoke("init", *arguments)
    assert (done.exit_code, words in done.stderr) == (2, True), done.output
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_changed(invoke: Invoke, tmp_path: Path) -> None:
    """Existing settings stay, and the next command is printed."""
    (tmp_path / "signoff.toml").write_text("# mine\n")
    done = invoke("init", "--yes")
    assert done.exit_code == 2
    assert "changes no file" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["signoff.toml"]


def test_settings_provided_by_up_apply_while_it_runs(tmp_path: Path) -> None:
    """They override the file and the environment, until `up` ends."""
    (tmp_path / "signoff.toml").write_text("[gateway]\nport = 0\n[email.smtp]\nport = 7\n")
    state = tmp_path / ".signoff"
    with alone(state):
        given = {
            "redis": {"url": "redis://127.0.0.1:1/0"},
            "gateway": {"port": 4321},
            "inbox": {"url": "http://localhost:4321", "secret_key": "k" * 43},
        }
        provide(state, given)
        found = load_settings()
        assert (found.redis_url, found.gateway.port) == ("redis://127.0.0.1:1/0", 4321)
        assert (found.inbox.url, found.email.smtp.port) == ("http://localhost:4321", 7)
        assert load_settings(kind="worker").inbox.url == ""
        assert (state / "up.json").stat().st_mode & 0o77 == 0
        with pytest.raises(ConfigError, match="runs already"), alone(state):
            pass
    assert provided(state) == {}
    assert load_settings().gateway.port == 0


def test_file_left_by_a_killed_up_is_ignored(tmp_path: Path) -> None:
    """Its file still exists, but nobody locks the folder."""
    state = tmp_path / ".signoff"
    script = (
        "import os, sys; from pathlib import Path\n"
        "from signoff.cli.config.started import alone, provide\n"
        "state = Path(sys.argv[1])\n"
        "with alone(state):\n"
        "    provide(state, {'gateway': {'port': 4321}})\n"
        "    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(state)], check=False).returncode == 9
    assert (state / "up.json").exists()
    assert provided(state) == {}


@pytest.mark.parametrize("here", [True, False])
def test_missing_redis_error_suggests_up(invoke: Invoke, tmp_path: Path, *, here: bool) -> None:
    """Without a Redis at its usual port, the error suggests `signoff up`, or another folder."""
    if here:
        (tmp_path / "signoff.toml").write_text("")
    done = invoke("runs", "list", env={"SIGNOFF_REDIS__PREFIX": "x:"})
    if done.exit_code == 0:
        pytest.skip("a Redis listens on its usual port on this machine")
    assert ("`signoff up`" if here else "There is no signoff.toml in") in done.stderr
    assert str(tmp_path) in done.stderr


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ({}, 'signoff mailbox reply last "approve"'),
        ({"email": {"smtp": {"host": "127.0.0.1"}}}, "signoff approvals approve ID --as mara"),
        (
            {"slack": {"bot_token": "xoxb-1", "app_token": "xapp-1"}},
            "signoff approvals approve ID --as mara",
        ),
    ],
)
def test_first_steps_answer_where_people_are_asked(parts: dict[str, Any], answer: str) -> None:
    """The development mailbox has cards only if there is neither a mail server nor Slack."""
    people = [{"id": "mara", "email": "mara@example.com"}]
    settings = Settings.model_validate({"people": people, "default": {"ask": ["mara"]}, **parts})
    assert first_steps(settings)[-1] == f"Answer: {answer}"
