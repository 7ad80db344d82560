"""`signoff freeze` and `thaw`: each view of an operator names the frozen calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger, waiting
from signoff.core.approvals.approval import Approval

__all__ = ["on_ledger", "waiting"]


def test_a_freeze_is_listed_shown_and_ended(invoke: Invoke, waiting: Approval) -> None:
    """Lists, the card and the freeze itself show it until its end."""
    assert invoke("freeze").output == "Nothing is frozen.\n"
    made = invoke("freeze", "--tool", "reimburse", "--why", "the bank called")
    assert made.stdout == "Frozen: reimburse(). Its calls wait until `signoff thaw`.\n"
    assert "the bank called" in invoke("freeze").output
    assert "pending, frozen" in " ".join(invoke("approvals", "list").output.split())
    assert "is frozen by" in invoke("approvals", "show", waiting.id).output
    (listed,) = json.loads(invoke("freeze", "--json").output)
    assert (listed["tool"], listed["app"], listed["why"]) == ("reimburse", "", "the bank called")
    assert listed["by"].endswith("(cli)")
    assert invoke("thaw", "--tool", "reimburse", "--why", "all clear").exit_code == 0
    assert invoke("freeze").output == "Nothing is frozen.\n"


@pytest.mark.usefixtures("waiting")
def test_a_misspelt_name_is_frozen_and_told(invoke: Invoke) -> None:
    """Somebody in a hurry reads at once that the tool still runs."""
    made = invoke("freeze", "--tool", "reimbruse", "--why", "the bank called")
    assert made.exit_code == 0
    assert made.stderr == (
        "Is the name right? No tool 'reimbruse' is known here. Did you mean 'reimburse'?\n"
    )
    for known in (("--tool", "reimburse"), ("--tool", "deploy"), ("--app", "finance")):
        assert invoke("freeze", *known, "--why", "x").stderr == ""
    assert "Did you mean 'finance'?" in invoke("freeze", "--app", "finanse", "--why", "x").stderr


def test_invalid_freeze_or_thaw_is_refused(invoke: Invoke, settings_file: Path) -> None:
    """A freeze without reason or scope is refused, and so is the end of a missing freeze."""
    assert settings_file.exists()
    for wrong in (("--tool", "pay"), ("--why", "x"), ("--all", "--app", "finance", "--why", "x")):
        assert invoke("freeze", *wrong).exit_code == 2
    for empty in (("--tool", ""), ("--app", " "), ("--app", "", "--tool", "pay")):
        for command in (("freeze", "--why", "x"), ("freeze",), ("thaw",)):
            refused = invoke(*command, *empty)
            assert (refused.exit_code, "it is empty" in refused.stderr) == (2, True)
    assert invoke("freeze").output == "Nothing is frozen.\n"
    done = invoke("freeze", "--all", "--why", "x")
    assert done.exit_code == 0, done.output
    again = invoke("freeze", "--all", "--why", "y")
    assert (again.exit_code, "has already frozen everything: x" in again.stderr) == (1, True)
    refused = invoke("thaw", "--app", "finance")
    assert (refused.exit_code, "the app finance is not frozen" in refused.stderr) == (1, True)


def test_only_people_named_by_the_policy_can_override_a_freeze(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger
) -> None:
    """Mara is asked but not named, so she can only approve as usual."""
    refused = invoke("approvals", "break-glass", waiting.id, "--as", "mara", "--reason", "now")
    assert (refused.exit_code, "names those who may in" in refused.stderr) == (1, True)
    history = on_ledger(lambda ledger: ledger.history(waiting.id))
    assert [one.more["verdict"] for one in history if one.what == "refused_answer"] == [
        "break_glass"
    ]
