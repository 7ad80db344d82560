"""Approving several requests by one command."""

from __future__ import annotations

import json

import pytest

from builders import MARA, paused, people
from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger
from deciding import Decider
from signoff.core.approvals.approval import State

__all__ = ["on_ledger"]


@pytest.mark.usefixtures("settings_file")
def test_each_of_several_requests_is_decided_separately(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """Each has a line; one that is already decided does not block the others."""
    _, (first, second, third) = on_ledger(lambda ledger: paused(ledger, siblings=3))
    on_ledger(lambda ledger: Decider(ledger, people()).reject(second.id, MARA, channel="email"))
    ids = (first.id, second.id, third.id, first.id)
    result = invoke("approvals", "approve", *ids, "--as", "mara")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{one.id}: approved by Mara Lind." for one in (first, third)
    ]
    assert f"{second.id}: not approved. Approval {second.id} is already rejected" in result.stderr
    after = on_ledger(lambda ledger: ledger.approvals([first.id, second.id, third.id]))
    assert [one.state for one in after] == [State.APPROVED, State.REJECTED, State.APPROVED]


@pytest.mark.usefixtures("settings_file")
def test_for_machines(invoke: Invoke, on_ledger: OnLedger) -> None:
    """The list has each approval, or the error in its place."""
    _, (first, second) = on_ledger(lambda ledger: paused(ledger, siblings=2))
    result = invoke(
        "approvals", "approve", first.id, "ap_none", second.id, "--as", "mara", "--json"
    )
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [one.get("state") for one in found] == ["approved", None, "approved"]
    assert found[1]["error"].startswith("There is no approval 'ap_none'.")


@pytest.mark.usefixtures("settings_file")
def test_values_are_refused_for_several_requests(invoke: Invoke) -> None:
    """With several approvals, it is not clear which one the values belong to."""
    result = invoke("approvals", "approve", "ap_1", "ap_2", "--as", "mara", "--value", "days=3")
    assert result.exit_code == 2
    assert "--value is for one approval" in result.stderr
