"""`signoff grants`, and the settings of grants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from channels.granting import asked
from signoff.broker.ledger.ledger import Ledger
from signoff.cli.config.check import check
from signoff.cli.config.settings import load_settings
from signoff.cli.main import app
from signoff.core.approvals.approval import State

SETTINGS = """\
[agents]
folder = "."
[redis]
url = "{url}"
prefix = "{prefix}"
[[people]]
id = "mara"
name = "Mara Lind"
email = "mara@example.com"
[[people]]
id = "riley"
email = "riley@example.com"
[[policies]]
name = "expenses"
when = "tool == 'reimburse'"
ask = ["mara"]
grants = {{who = ["mara"], vary = ["amount"], limit = "args.amount <= 500"}}
[default]
ask = ["mara"]
"""

Command = Callable[..., Awaitable[str]]


@pytest.fixture
def run(tmp_path: Path, redis_url: str, prefix: str) -> Command:
    """Return a function that runs the command with settings that allow grants."""
    file = tmp_path / "signoff.toml"
    file.write_text(SETTINGS.format(url=redis_url, prefix=prefix))

    async def call(*words: str, code: int = 0) -> str:
        arguments = ["--config", str(file), *words]
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
        assert result.exit_code == code, result.output
        return result.output

    return call


async def test_grant_is_given_used_shown_and_revoked(ledger: Ledger, run: Command) -> None:
    """A grant is given, used, shown and revoked; the next call waits for a person."""
    first = await asked(ledger, "first")
    words = ("grants", "give", first.id, "--for", "4h")
    assert "nobody has approved" in await run(*words, code=2)
    said = await run(*words, "--uses", "5", "--as", "mara@example.com", "--reason", "conference")
    grant = said.partition(":")[0]
    assert "reimburse(any amount) where args.amount <= 500, 5 times until" in said
    done = await asked(ledger, "second", amount=300)
    assert done.state is State.APPROVED
    assert "1 of 5" in await run("grants", "list")
    shown = await run("grants", "show", first.id)
    assert f"{done.id}" in shown
    assert "conference" in shown
    assert "amount=300" in shown
    assert "grant used" in await run("approvals", "show", done.id)
    assert "1 of 5" in await run("grants", "revoke", grant, "--reason", "trip is over")
    assert (await asked(ledger, "third")).state is State.PENDING
    assert "no open grants" in await run("grants", "list")
    (one,) = json.loads(await run("grants", "list", "--all", "--json"))
    assert (one["state"], one["revoked_why"]) == ("revoked", "trip is over")
    assert "revoked already" in await run("grants", "revoke", grant, "--reason", "again", code=1)


async def test_invalid_grant_error_has_the_policy_limit(ledger: Ledger, run: Command) -> None:
    """The error has the policy's limit, and nothing changes."""
    first = await asked(ledger, "first")
    words = ("grants", "give", first.id, "--as", "mara")
    assert "8h at most" in await run(*words, "--for", "9h", code=1)
    assert "1 to 20 calls" in await run(*words, "--for", "1h", "--uses", "21", code=1)
    assert "is not a duration" in await run(*words, "--for", "soon", code=2)
    assert (await ledger.approval(first.id)).state is State.PENDING
    assert "There are no grants" in await run("grants", "list", "--all")
    assert "no grant" in await run("grants", "show", "gr_none", code=1)


@pytest.mark.parametrize(
    ("grants", "key", "severity"),
    [
        ('{who = ["mara"], vary = ["amount"], limit = "args.amount <= 500"}', "", ""),
        ('{who = ["riley"]}', "policies[0].grants.who", "warning"),
        ('{who = ["mira"]}', "policies[0].grants.who", "error"),
        ('{who = ["mara"], limit = "args.amount <="}', "policies[0].grants.limit", "error"),
        ('{who = ["mara"], vary = ["amount"]}', "policies[0].grants.vary", "warning"),
        ('{who = ["mara"]}\nquorum = 2', "policies[0].grants", "warning"),
        ('{who = ["mara"]}\nsecond_step = "true"', "policies[0].grants", "warning"),
    ],
)
def test_settings_of_grants_are_checked(
    tmp_path: Path, grants: str, key: str, severity: str
) -> None:
    """An unknown name, an invalid CEL, a missing limit, and settings that make grants useless."""
    file = tmp_path / "signoff.toml"
    text = SETTINGS.format(url="redis://127.0.0.1/0", prefix="x:")
    before, _, after = text.partition("grants = ")
    file.write_text(f"{before}grants = {grants}\n[default]{after.partition('[default]')[2]}")
    found = [(one.key, one.severity) for one in check(load_settings(file)) if "grants" in one.key]
    assert found == ([(key, severity)] if key else [])
