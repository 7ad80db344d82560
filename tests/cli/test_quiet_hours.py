"""Quiet hours on the command line: settings, waiting cards, and the forecast."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders import paused
from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger
from signoff.broker.ledger.ledger import Ledger
from signoff.cli.config.check import check
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import load_settings
from signoff.core.approvals.approval import Approval

__all__ = ["on_ledger"]

EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"


async def _asked(ledger: Ledger) -> Approval:
    """Ask Mara and Cleo for two weeks; no card is delivered."""
    _, (approval,) = await paused(ledger, within=timedelta(days=14))
    return approval


@pytest.fixture
def morning(settings_file: Path) -> str:
    """Let Mara work on one day of the week, three days from now, and return her next morning."""
    day = datetime.now(UTC) + timedelta(days=3)
    quiet = f'email = "mara@example.com"\nhours = ["{day:%a} 09:00-17:00"]\nquiet_hours = true'
    text = settings_file.read_text()
    settings_file.write_text(text.replace('email = "mara@example.com"', quiet))
    return f"Mara Lind's morning, {day:%a %d %b} 09:00 UTC"


def test_lists_show_why_a_card_waits(invoke: Invoke, on_ledger: OnLedger, morning: str) -> None:
    """The approval and the lists show it; nobody else's card waits."""
    approval = on_ledger(_asked)
    assert isinstance(approval, Approval)
    shown = invoke("approvals", "show", approval.id).output
    assert shown.count(f"waits for {morning}") == 1
    assert shown.count("under way") == 1
    assert f"Cleo Park, {morning}" in invoke("queue", "show", "all").output
    assert morning in invoke("queue", "list").output


def test_policy_explain_shows_waiting_cards(invoke: Invoke) -> None:
    """`policy explain` shows it beside the card."""
    shown = invoke(
        *("--config", str(EXAMPLES / "quiet_hours.toml"), "policy", "explain", "--tool", "refund"),
        *("--user", "nora", "--at", "2026-11-18T19:00", "--zone", "Europe/Berlin"),
    ).output
    card = "Mara Lind by email (mara@example.com), waits for Mara Lind's morning"
    assert f"{card}, 08:00 Europe/Berlin" in shown
    assert "Tom Weber by email (tom@example.com)" in shown
    assert "(tom@example.com), waits" not in shown


INBOX = '[inbox]\nurl = "https://a.example.com"\nsecret_key = "a key of thirty-two characters.."\n'
URGENT = (
    '[[policies]]\nname = "fast"\nwhen = "tool == \'reimburse\'"\nask = ["mara"]\nurgent = true\n'
)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "each is sent on its own"),
        (INBOX, "somebody who gets more than 5 within 5m gets the others together"),
        (f"{INBOX}[delivery]\nbundle_over = 0\n", "each is sent on its own"),
        (INBOX + URGENT, "urgent, so each is sent at once and on its own"),
    ],
)
def test_policy_explain_shows_bundled_cards(
    invoke: Invoke, settings_file: Path, more: str, words: str
) -> None:
    """It depends on the number of other cards, the settings and the policy."""
    text = settings_file.read_text()
    text = text.replace("[[policies]]", f"{more}[[policies]]", 1) if more else text
    settings_file.write_text(text)
    said = " ".join(invoke("policy", "explain", "--tool", "reimburse").stdout.split())
    assert f"cards: {words}" in said


@pytest.mark.parametrize(
    ("delivery", "own", "quiet"),
    [
        ("", "", None),
        ("quiet_hours = true", "", True),
        ("quiet_hours = true", "quiet_hours = false", False),
        ("quiet_hours = false", "quiet_hours = true", True),
    ],
)
def test_personal_delivery_settings_override_the_general_ones(
    tmp_path: Path, *, delivery: str, own: str, quiet: bool | None
) -> None:
    """A person's own value counts, and otherwise [delivery]."""
    file = tmp_path / "signoff.toml"
    person = '[[people]]\nid = "mara"\nemail = "mara@example.com"\nhours = ["Mon 09:00-17:00"]\n'
    file.write_text(f"[delivery]\n{delivery}\n{person}{own}\n")
    mara = load_settings(file).everybody.get("mara")
    assert mara is not None
    assert mara.quiet_hours is quiet


def test_quiet_hours_without_hours_are_an_error(tmp_path: Path) -> None:
    """A card could not wait for anything, so the setting is a mistake."""
    file = tmp_path / "signoff.toml"
    file.write_text('[[people]]\nid = "mara"\nemail = "mara@example.com"\nquiet_hours = true\n')
    faults = [one for one in check(load_settings(file)) if one.key == "people[0].quiet_hours"]
    assert [one.message for one in faults] == [
        "'mara' has quiet_hours and no hours: nothing would wait"
    ]
    assert "hours = [" in faults[0].remedy


@pytest.mark.parametrize(
    "line", ['bundle_within = "1s"', 'bundle_within = "2h"', "bundle_over = -1"]
)
def test_bundles_that_make_no_sense_are_refused(tmp_path: Path, line: str) -> None:
    """Seconds bundle nothing, and hours delay cards too much."""
    file = tmp_path / "signoff.toml"
    file.write_text(f"[delivery]\n{line}\n")
    with pytest.raises(ConfigErrors) as error:
        load_settings(file)
    assert "delivery.bundle_" in str(error.value)
