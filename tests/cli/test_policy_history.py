"""`signoff policy history`: each version of a policy, its time and who loaded it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger
from signoff.broker import policy_history
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.policy_history import note_policies
from signoff.cli.config.settings import load_settings
from signoff.core.policies.policy import Fallback, Policy

__all__ = ["on_ledger"]


def test_policy_versions_are_listed_with_their_changes(
    invoke: Invoke, on_ledger: OnLedger, settings_file: Path
) -> None:
    """Each load with a change has lines, here and in the audit; other loads have none."""
    assert "No version is known yet" in invoke("policy", "history").stdout

    def load(by: str) -> int:
        settings = load_settings(settings_file)

        async def note(ledger: Ledger) -> int:
            rules = settings.policies, settings.default
            return len(await note_policies(ledger, *rules, by=by))

        return int(on_ledger(note))

    assert load("ann (h1)") == 3
    assert load("bob (h2)") == 0
    text = settings_file.read_text()
    settings_file.write_text(text.replace('within = "4h"', 'within = "2h"'))
    assert load("bob (h2)") == 1

    lines = json.loads(invoke("policy", "history", "expenses", "--json").stdout)
    assert [(one["by"], one["content"]["ask"]) for one in lines] == [
        ("ann (h1)", ["mara", "cleo"]),
        ("bob (h2)", ["mara", "cleo"]),
    ]
    shown = invoke("policy", "history").stdout
    assert lines[-1]["version"] in shown
    assert "within" in shown

    async def noted(ledger: Ledger) -> list[str]:
        return [text async for _, text, _ in audit.entries(ledger.store)]

    last = json.loads(on_ledger(noted)[-1])
    assert (last["what"], last["more"]["was"]) == ("policy_changed", lines[0]["version"])


async def test_a_policy_that_stays_is_not_new_after_many_changes_of_another(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old versions are dropped, but not the latest one of a policy."""
    monkeypatch.setattr(policy_history, "_MOST", 4)
    fallback = Fallback(ask=("mara",))

    def policies(hours: int) -> list[Policy]:
        always = Policy(name="stays", when="true", ask=("mara",))
        return [always, Policy(name="moves", when="true", ask=("mara",), within=f"{hours}h")]

    assert len(await note_policies(ledger, policies(1), fallback, by="ann")) == 4
    for hours in range(2, 12):
        (fresh,) = await note_policies(ledger, policies(hours), fallback, by="ann")
        assert fresh.policy == "moves"
    assert len(await policy_history.history(ledger)) == 4 + 3
