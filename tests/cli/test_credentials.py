"""Each process has the secrets that its work needs, and no others."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from ports import free_port
from signoff.cli.composition.credentials import (
    MAILBOX,
    WITHHELD,
    gets,
    own_content,
    own_environment,
)
from signoff.cli.composition.kinds import KINDS
from signoff.cli.composition.supervisor import Supervisor
from signoff.cli.config.check import check, require
from signoff.cli.config.settings import Settings, load_settings

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "run-in-production.md"

NEEDED: dict[str, set[str]] = {
    "redis.url": {"worker", "channels", "gateway"},
    "broker.url": {"worker", "channels", "gateway"},
    "sessions.url": {"worker", "gateway"},
    "agents.remote.*.token": {"worker", "gateway"},
    "agents.remote.*.headers.*": {"worker", "gateway"},
    "ces.key": {"worker"},
    "receipts.private_key": {"channels", "gateway"},
    "email.smtp.password": {"channels"},
    "email.smtp.oauth.client_secret": {"channels"},
    "email.smtp.oauth.refresh_token": {"channels"},
    "email.imap.password": {"gateway"},
    "email.imap.oauth.client_secret": {"gateway"},
    "email.imap.oauth.refresh_token": {"gateway"},
    "email.webhook.secrets": {"gateway"},
    "email.webhook.mailgun_secrets": {"gateway"},
    "slack.bot_token": {"channels", "gateway"},
    "slack.app_token": {"gateway"},
    "slack.signing_secret": {"gateway"},
    "inbox.secret_key": {"gateway"},
    "inbox.secret_key_previous": {"gateway"},
    "inbox.oidc.client_secret": {"gateway"},
    "inbox.push.private_key": {"channels"},
    "webhooks.secrets": {"channels"},
    "channels": {"channels", "gateway"},
    "metrics.token": {"worker", "channels", "gateway"},
}
"""Every secret of the settings, with the processes that need it."""

WITH_PASSWORDS = {"redis.url", "broker.url", "sessions.url", "channels"}
"""URLs that may contain a password, and tables with keys of foreign code."""


def secrets_of(annotation: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every setting whose type is a secret."""
    if annotation is SecretStr:
        yield path
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield from secrets_of(field.annotation, f"{path}.{name}" if path else name)
    elif typing.get_origin(annotation) is dict:
        yield from secrets_of(typing.get_args(annotation)[1], f"{path}.*")
    elif typing.get_origin(annotation) in {tuple, list, types.UnionType, typing.Union} or hasattr(
        annotation, "__metadata__"
    ):
        for part in typing.get_args(annotation):
            yield from secrets_of(part, path)


def test_every_secret_of_the_settings_has_its_processes() -> None:
    """A new secret has to be added to the table, so no process gets it by accident."""
    assert set(secrets_of(Settings)) | WITH_PASSWORDS == set(NEEDED)
    found = {path: {kind for kind in KINDS if gets(kind, path)} for path in NEEDED}
    assert found == NEEDED
    assert not any(gets(MAILBOX, path) for path in NEEDED)
    assert set(WITHHELD) == {*KINDS, "mailbox", "rules"}


def test_documentation_lists_the_variables_of_each_service() -> None:
    """Operators who set separate variables for each service find them there."""
    rows = re.findall(r"^\| `(SIGNOFF_[^|]*)\| ([^|]*)\|", HOW_TO.read_text(), re.MULTILINE)
    told = {
        name.removeprefix("SIGNOFF_").replace("__", ".").lower(): set(who.strip().split(", "))
        for names, who in rows
        for name in re.findall(r"SIGNOFF_\w+", f"`{names}")
    }
    single = {
        path.replace(".*", "") for path in NEEDED if not path.startswith(("agents.", "webhooks."))
    }
    wanted = {path: who for path, who in NEEDED.items() if path in single}
    wanted |= {"agents.remote": NEEDED["agents.remote.*.token"]}
    wanted |= {"webhooks": NEEDED["webhooks.secrets"]}
    assert told == wanted


@pytest.mark.parametrize("kind", WITHHELD)
def test_variables_are_sorted_out_by_name_and_inside_of_tables(kind: str) -> None:
    """Foreign variables stay, and a second pass changes nothing."""
    given = {
        "PATH": "/bin",
        "GOOGLE_API_KEY": "g",
        "SIGNOFF_CONFIG": "x.toml",
        "SIGNOFF_LOG__FORMAT": "json",
        "signoff_inbox__secret_key": "s",
        "SIGNOFF_INBOX": json.dumps({"url": "https://x.example", "secret_key": "s"}),
        "SIGNOFF_WEBHOOKS": '[{"name": "erp"}]',
        "SIGNOFF_WEBHOOKS__0__SECRETS": '["s"]',
        "SIGNOFF_AGENTS": json.dumps({"remote": {"far": {"url": "u", "token": "s"}}}),
        "SIGNOFF_AGENTS__REMOTE__FAR__TOKEN": "s",
        "SIGNOFF_EMAIL": "{no JSON",
    }
    own = own_environment(kind, given)
    assert own_environment(kind, own) == own
    assert {"PATH", "GOOGLE_API_KEY", "SIGNOFF_CONFIG", "SIGNOFF_LOG__FORMAT"} <= set(own)
    assert ("signoff_inbox__secret_key" in own) == gets(kind, "inbox.secret_key")
    page = json.loads(own.get("SIGNOFF_INBOX", "{}"))
    assert ("secret_key" in page) == gets(kind, "inbox.secret_key")
    assert ("url" in page) == gets(kind, "inbox.url")
    assert ("SIGNOFF_WEBHOOKS" in own) == gets(kind, "webhooks")
    assert ("SIGNOFF_WEBHOOKS__0__SECRETS" in own) == gets(kind, "webhooks")
    far = json.loads(own.get("SIGNOFF_AGENTS", "{}")).get("remote", {}).get("far", {})
    assert ("token" in far) == gets(kind, "agents.remote.far.token")
    assert "SIGNOFF_EMAIL" not in own


def test_a_command_of_a_person_has_everything() -> None:
    """An operator's commands do the work of every process."""
    given = {"SIGNOFF_INBOX__SECRET_KEY": "s", "SIGNOFF_WEBHOOKS": "[]"}
    assert own_environment("", given) == given
    assert own_content("", {"inbox": {"secret_key": "s"}}) == {"inbox": {"secret_key": "s"}}


FILE = """\
[redis]
url = "{redis}"
prefix = "{prefix}"
[agents]
folder = "{agents}"
[agents.remote.far]
url = "http://127.0.0.1:9"
[gateway]
port = 0
[email]
sender = "Signoff <approvals@example.com>"
mailbox = "approvals@example.com"
[email.smtp]
username = "signoff"
[email.imap]
host = "127.0.0.1"
port = {imap}
security = "none"
username = "signoff"
[email.inbound]
port = 0
[inbox]
url = "https://approvals.example.com"
sign_in = ["code", "oidc"]
[inbox.oidc]
issuer = "https://login.example.com"
client_id = "signoff"
[[people]]
id = "mara"
email = "mara@example.com"
slack = "U1"
[[policies]]
name = "large"
when = "args.amount > 100"
ask = ["mara"]
channels = ["slack"]
second_step = "true"
[default]
ask = ["mara"]
"""

VALUES = {
    "inbox.secret_key": "Aa1-secret-of-the-page-0123456789abcdef",
    "inbox.oidc.client_secret": "Bb2-secret-of-the-client-0123456789",
    "email.smtp.password": "Cc3-password-of-smtp-0123456789",
    "email.imap.password": "Dd4-password-of-imap-0123456789",
    "email.webhook.secrets": "whsec_RWU1LXNlY3JldC1vZi10aGUtd2ViaG9vay0wMTIz",
    "email.webhook.mailgun_secrets": "Ff6-key-of-mailgun-0123456789abcd",
    "slack.bot_token": "xoxb-Gg7-token-of-the-bot-0123456789",
    "slack.signing_secret": "Hh8-secret-that-signs-0123456789",
    "webhooks.secrets": "whsec_SWk5LXNlY3JldC1vZi10aGUtd2ViaG9vay0wMTIz",
    "agents.remote.*.token": "Jj0-token-of-the-far-agent-0123456789",
    "ces.key": "Kk1-key-of-suspended-code-0123456789abcdef",
    "sessions.url": "Ll2-password-of-the-sessions-0123456789",
}


def environment(folder: Path) -> dict[str, str]:
    """Return variables with all secrets, as one file for all services has them."""
    hook = {
        "name": "erp",
        "url": "https://erp.example.com",
        "secrets": [VALUES["webhooks.secrets"]],
    }
    single = {
        "SIGNOFF_" + path.replace(".", "__").upper(): value
        for path, value in VALUES.items()
        if path.count("*") == 0 and not path.endswith("secrets") and path != "sessions.url"
    }
    return single | {
        "SIGNOFF_SESSIONS__URL": f"sqlite:///{folder}/{VALUES['sessions.url']}.db",
        "SIGNOFF_WEBHOOKS": json.dumps([hook]),
        "SIGNOFF_EMAIL__WEBHOOK__SECRETS": json.dumps([VALUES["email.webhook.secrets"]]),
        "SIGNOFF_EMAIL__WEBHOOK__MAILGUN_SECRETS": json.dumps(
            [VALUES["email.webhook.mailgun_secrets"]]
        ),
        "SIGNOFF_AGENTS__REMOTE__FAR__TOKEN": VALUES["agents.remote.*.token"],
    }


@pytest.fixture
def file(tmp_path: Path, redis_url: str, prefix: str) -> Path:
    """Return settings that need all of the secrets."""
    agents = tmp_path / "agents"
    agents.mkdir()
    made = tmp_path / "signoff.toml"
    text = FILE.format(redis=redis_url, prefix=prefix, agents=agents, imap=free_port())
    made.write_text(text)
    return made


def memory_of(pid: int) -> bytes:
    """Return the writable memory of a process."""
    found = bytearray()
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            if rights.startswith("rw"):
                start, end = (int(part, 16) for part in place.split("-"))
                try:
                    memory.seek(start)
                    found += memory.read(end - start)
                except (OSError, OverflowError, ValueError):
                    continue
    return bytes(found)


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a process is looked into by /proc")
async def test_no_process_has_a_secret_of_another_in_its_memory(file: Path, tmp_path: Path) -> None:
    """`signoff up` gives all processes one environment; each keeps only its own secrets."""
    given = environment(tmp_path)
    async with Supervisor() as supervisor:
        for kind in KINDS:
            await supervisor.signoff(kind, "--config", str(file), kind, env=given)
        await supervisor.ready(within=300)
        for kind in KINDS:
            memory = memory_of(supervisor.children[kind].pid)
            has = {path for path, value in VALUES.items() if value.encode() in memory}
            assert has == {path for path in VALUES if kind in NEEDED[path]}, kind


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_in_the_file_are_withheld_from_other_processes(
    file: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process does not get a secret that is in the file."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    everything = load_settings(file)
    require(everything)
    for name in environment(tmp_path):
        monkeypatch.delenv(name)
    text = everything.model_dump_json()
    assert "Aa1" not in text  # printed settings hide secrets, so the test writes the file itself
    file.write_text(
        file.read_text()
        .replace("[inbox]\n", f'[inbox]\nsecret_key = "{VALUES["inbox.secret_key"]}"\n')
        .replace("[email.smtp]\n", f'[email.smtp]\npassword = "{VALUES["email.smtp.password"]}"\n')
        .replace("[email.imap]\n", f'[email.imap]\npassword = "{VALUES["email.imap.password"]}"\n')
        .replace("[[people]]", f'[slack]\nbot_token = "{VALUES["slack.bot_token"]}"\n[[people]]', 1)
    )
    settings = load_settings(file, kind)
    values = {
        "inbox.secret_key": settings.inbox.secret_key,
        "email.smtp.password": settings.email.smtp.password,
        "email.imap.password": settings.email.imap.password
        if settings.email.imap
        else SecretStr(""),
        "slack.bot_token": settings.slack.bot_token,
    }
    for path, secret in values.items():
        assert bool(secret.get_secret_value()) == (kind in NEEDED[path]), path


@pytest.mark.parametrize("kind", KINDS)
def test_each_process_accepts_settings_with_only_its_own_secrets(
    file: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service with only its own secrets accepts the shared settings."""
    for name, value in own_environment(kind, environment(tmp_path)).items():
        monkeypatch.setenv(name, value)
    assert require(load_settings(file, kind), kind) == []


@pytest.mark.parametrize("kind", ["", *KINDS])
def test_each_process_reports_its_missing_secrets(
    file: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway needs the page's key and a way for clicks; the others do not."""
    given = environment(tmp_path)
    del given["SIGNOFF_INBOX__SECRET_KEY"], given["SIGNOFF_SLACK__SIGNING_SECRET"]
    for name, value in own_environment(kind, given).items():
        monkeypatch.setenv(name, value)
    missed = {one.key for one in check(load_settings(file, kind), kind)}
    assert missed == ({"inbox.secret_key", "slack"} if kind in {"", "gateway"} else set())
