"""`signoff inbox`, and the findings about ways to sign in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from openid import provider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.inbox.auth.links import Links
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.settings import InboxSettings
from signoff.cli.config.check import check
from signoff.cli.config.settings import load_settings
from signoff.cli.doctor.inbox import openid
from signoff.cli.main import app

SETTINGS = """\
[agents]
folder = "."
[redis]
url = "{url}"
prefix = "{prefix}"
[inbox]
url = "{page}"
secret_key = "a key of thirty-two characters.."
{more}
[[people]]
id = "mara"
email = "mara@example.com"
[default]
ask = ["mara"]
"""


@pytest.fixture
def write(tmp_path: Path, redis_url: str, prefix: str) -> Callable[..., Path]:
    """Return a function that writes settings and returns their file."""

    def write_(page: str = "http://localhost:8080", more: str = "") -> Path:
        file = tmp_path / "signoff.toml"
        file.write_text(SETTINGS.format(url=redis_url, prefix=prefix, page=page, more=more))
        return file

    return write_


def run(file: Path, *words: str, code: int = 0) -> str:
    """Run the command and return its output."""
    result = CliRunner().invoke(app, ["--config", str(file), *words])
    assert result.exit_code == code, result.output
    return result.output


def test_a_link_for_development(write: Callable[..., Path], redis_url: str, prefix: str) -> None:
    """It leads to the local page and signs this person in."""
    link = json.loads(run(write(), "inbox", "link", "mara@example.com", "--json"))["link"]
    start, _, token = link.rpartition("/")
    assert start == "http://localhost:8080/inbox/sign-in/link"

    async def look() -> None:
        ledger = Ledger(Store.open(redis_url, prefix=prefix))
        found = await Links(ledger).find(token)
        await ledger.close()
        assert found is not None
        assert (found.person, found.how, found.bound) == ("mara", How.LOCAL, "")

    asyncio.run(look())


@pytest.mark.parametrize(
    ("page", "words"), [("https://approvals.example.com", "is not on this machine")]
)
def test_no_link_leads_to_another_machine(
    write: Callable[..., Path], page: str, words: str
) -> None:
    """A link that works in any browser is only for development."""
    assert words in run(write(page), "inbox", "link", "mara", code=2)
    assert "no person" in run(write(), "inbox", "link", "nobody", code=2)


def test_operator_ends_all_sessions_of_a_person(
    write: Callable[..., Path], redis_url: str, prefix: str
) -> None:
    """All sessions end immediately, even for a person who has left the directory."""
    file = write()

    async def begin() -> str:
        ledger = Ledger(Store.open(redis_url, prefix=prefix))
        name = await Sessions(ledger, InboxSettings()).begin("mara", how=How.LINK, also=Change())
        await ledger.close()
        return name

    async def lasts(name: str) -> bool:
        ledger = Ledger(Store.open(redis_url, prefix=prefix))
        found = await Sessions(ledger, InboxSettings()).find(name)
        await ledger.close()
        return found is not None

    name = asyncio.run(begin())
    assert asyncio.run(lasts(name))
    assert "All sessions of" in run(file, "people", "sign-out", "mara@example.com")
    assert not asyncio.run(lasts(name))
    run(file, "people", "sign-out", "long-gone")


def test_doctor_reports_a_public_page_with_local_mail(write: Callable[..., Path]) -> None:
    """A page for other people with mail that does not leave this machine is a finding."""
    page = "https://approvals.example.com"
    (found,) = check(load_settings(write(page)))
    assert (found.key, found.severity) == ("inbox.sign_in", "warning")
    assert check(load_settings(write(page, 'sign_in = ["code"]'))) == []
    assert check(load_settings(write())) == []


async def test_the_doctor_asks_the_sign_in_of_the_company(
    write: Callable[..., Path], ledger: Ledger
) -> None:
    """It prints the redirect address or the error."""
    with provider() as company:
        more = f'sign_in = ["oidc"]\n[inbox.oidc]\nissuer = "{company.issuer}"\nclient_id = "x"'
        settings = load_settings(write(more=more))
        (found,) = await openid(ledger, settings)
        assert found.level == "good"
        assert "http://localhost:8080/inbox/sign-in/oidc/callback" in found.text
    (found,) = await openid(ledger, settings)
    assert found.level == "broken"
    assert "cannot be reached" in found.text
