"""`signoff people`: second factors from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyotp
import pytest
from typer.testing import CliRunner

from signoff.cli.main import app

SETTINGS = """\
[redis]
url = "{url}"
prefix = "{prefix}"
[inbox]
url = "https://approvals.example.com"
secret_key = "a key of thirty-two characters.."
[[people]]
id = "mara"
email = "mara@example.com"
[[people]]
id = "cleo"
email = "cleo@example.com"
[[policies]]
name = "all"
ask = ["mara"]
second_step = "true"
[default]
ask = ["cleo"]
"""


@pytest.fixture
def run(tmp_path: Path, redis_url: str, prefix: str) -> Callable[..., str]:
    """Return a function that runs the command with an inbox page in the settings."""
    file = tmp_path / "signoff.toml"
    file.write_text(SETTINGS.format(url=redis_url, prefix=prefix))

    def call(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["--config", str(file), *words])
        assert result.exit_code == code, result.output
        return result.output

    return call


def test_enrollment_shows_a_secret_once(run: Callable[..., str]) -> None:
    """It is shown as a QR code and as a URL; the list shows it, and a second time is refused."""
    shown = run("people", "enroll", "Mara@Example.com")
    (uri,) = [line for line in shown.splitlines() if line.startswith("otpauth://")]
    assert pyotp.parse_uri(uri).name == "mara@example.com"
    assert "█" in shown
    people = json.loads(run("people", "list", "--json"))
    assert {one["id"]: one["enrolled"] for one in people} == {"mara": True, "cleo": False}
    assert "--replace" in run("people", "enroll", "mara", code=2)
    again = json.loads(run("people", "enroll", "mara", "--replace", "--json"))
    assert again["uri"] != uri
    assert "yes" in run("people", "list")


def test_unenrolling(run: Callable[..., str]) -> None:
    """The output says whether there was a factor; people who have left can be named."""
    run("people", "enroll", "mara")
    assert "All second factors of" in run("people", "unenroll", "mara@example.com")
    assert "is not enrolled" in run("people", "unenroll", "mara", code=2)
    assert "is not enrolled" in run("people", "unenroll", "long-gone", code=2)


def test_secrets_are_sealed_with_a_new_key(run: Callable[..., str], tmp_path: Path) -> None:
    """The command names the people, and those whose secrets neither key decrypts."""
    file, old = tmp_path / "signoff.toml", 'secret_key = "a key of thirty-two characters.."'
    run("people", "enroll", "mara")
    first, new = file.read_text(), 'secret_key = "another key of thirty-two letters"'
    file.write_text(first.replace(old, new))
    assert "Neither key opens the secrets of mara" in run("people", "reseal", code=1)
    both = old.replace("secret_key", "secret_key_previous")
    file.write_text(first.replace(old, f"{new}\n{both}"))
    assert "Encrypted with secret_key: mara." in run("people", "reseal")
    file.write_text(first.replace(old, new))
    assert json.loads(run("people", "reseal", "--json")) == {"resealed": [], "lost": []}


def test_enrollment_without_a_page_is_refused(tmp_path: Path, redis_url: str, prefix: str) -> None:
    """The message names the settings."""
    file = tmp_path / "signoff.toml"
    text = SETTINGS.format(url=redis_url, prefix=prefix)
    start, end = text.index("[inbox]"), text.index("[[people]]")
    file.write_text(text[:start] + text[end:])
    result = CliRunner().invoke(app, ["--config", str(file), "people", "enroll", "mara"])
    assert result.exit_code != 0
    assert "[inbox]" in result.output


async def test_doctor_names_approvers_without_a_second_factor(
    tmp_path: Path, redis_url: str, prefix: str
) -> None:
    """The doctor names such approvers of the policy and of the default."""
    from signoff.broker.ledger.ledger import Ledger
    from signoff.broker.ledger.store import Store
    from signoff.channels.inbox.auth.factors import Factors
    from signoff.cli.config.settings import load_settings
    from signoff.cli.doctor.inbox import second_factors

    file = tmp_path / "signoff.toml"
    file.write_text(SETTINGS.format(url=redis_url, prefix=prefix))
    settings = load_settings(file)
    ledger = Ledger(Store.open(redis_url, prefix=prefix))
    try:
        (found,) = await second_factors(ledger, settings)
        assert found.level == "warning"
        assert "may be required: mara, cleo" in found.text
        factors = Factors(ledger, settings.inbox.secret_key)
        for person in settings.people:
            await factors.enroll(person, by="test")
        (found,) = await second_factors(ledger, settings)
        assert found.level == "good"
        # Somebody else has the id now.
        file.write_text(file.read_text().replace("mara@example.com", "mara.lind@example.com"))
        (others, lacking) = await second_factors(ledger, load_settings(file))
        assert "not accepted: mara (mara@example.com)" in others.text
        assert "may be required: mara." in lacking.text
    finally:
        await ledger.close()


def test_an_absence_is_set_and_ended(run: Callable[..., str]) -> None:
    """It starts today if no date is given; the list shows the delegate."""
    said = run("people", "away", "Mara@example.com", "--until", "9999-12-31", "--delegate", "cleo")
    assert "until 9999-12-31, cleo decides" in said
    assert "until 9999-12-31, cleo" in " ".join(run("people", "list").split())
    people = {one["id"]: one for one in json.loads(run("people", "list", "--json"))}
    assert people["mara"]["away_now"]
    assert people["mara"]["away"][0]["delegate"] == "cleo"
    assert not people["cleo"]["away_now"]
    assert "mara is back" in run("people", "back", "mara")
    assert "Nothing was changed" in run("people", "back", "mara", code=1)
    assert not json.loads(run("people", "list", "--json"))[0]["away_now"]


def test_a_planned_absence_is_listed(run: Callable[..., str]) -> None:
    """The list shows when it begins, and `back` says that it stays."""
    run("people", "away", "mara", "--from", "9999-12-01", "--until", "9999-12-31")
    assert "from 9999-12-01 until 9999-12-31" in " ".join(run("people", "list").split())
    refused = run("people", "back", "mara", code=1)
    assert "The absence from 9999-12-01 can be ended once it has begun." in refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("mara", "--until", "tomorrow"),
            "--until: 'tomorrow' is not a day: write it like 2026-12-24",
        ),
        (("mara", "--until", "2000-01-01"), "before"),
        (("mara", "--from", "1999-01-01", "--until", "2000-01-01"), "The absence ends on"),
        (("mara", "--until", "9999-12-31", "--delegate", "mara"), "mara → mara"),
        (("mara", "--until", "9999-12-31", "--delegate", "tom"), "no person 'tom'"),
        (("tom", "--until", "9999-12-31"), "no person 'tom'"),
    ],
)
def test_an_absence_that_cannot_be_is_refused(
    run: Callable[..., str], words: tuple[str, ...], message: str
) -> None:
    """The error has a suggestion, and nobody is away."""
    code = 2 if "no person" in message or "not a day" in message else 1
    assert message in " ".join(run("people", "away", *words, code=code).split())
    assert not any(one["away_now"] for one in json.loads(run("people", "list", "--json")))
