"""`signoff approvals list`: filters and orders."""

from __future__ import annotations

import json
import shlex

import pytest

from builders import CLEO, paused
from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger, waiting
from signoff.core.approvals.approval import Approval

__all__ = ["on_ledger", "waiting"]


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ("", [0, 1]),
        ("--all", [2, 1, 0]),
        ("--all --sort oldest", [0, 1, 2]),
        ("--state claimed", [1]),
        ("--state free", [0]),
        ("--state rejected", [2]),
        ("--mine cleo --sort newest", [1, 0]),
        ("--all --person mara", [2, 1, 0]),
        ("--search 'conference riley'", [0, 1]),
        ("--search 'conference sales'", []),
        ("--tool reimburse --app finance --limit 1", [0]),
        ("--queue finance", []),
        ("--due overdue", []),
        ("--due day", [0, 1]),
        ("--mine cleo --sort due", [0, 1]),
    ],
)
def test_filters_list_the_matching_requests(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger, words: str, places: list[int]
) -> None:
    """The filters match the inbox page and the API; the end of a claim is no deadline."""
    made = [waiting, *(on_ledger(paused)[1][0] for _ in range(2))]
    assert invoke("approvals", "claim", made[1].id, "--as", "mara").exit_code == 0
    assert invoke("approvals", "reject", made[2].id, "--as", "mara").exit_code == 0
    result = invoke("approvals", "list", "--json", *shlex.split(words))
    assert result.exit_code == 0, result.output
    listed = [one["id"] for one in json.loads(result.stdout)]
    assert listed == [made[place].id for place in places]


def test_the_end_of_a_page_counts_the_requests_of_the_list(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger
) -> None:
    """It counts what waits for the person, and nothing if the list is filtered."""
    mine = on_ledger(lambda ledger: paused(ledger, siblings=2, asked=(CLEO,)))[1]
    assert waiting.id not in {one.id for one in mine}
    assert invoke("approvals", "claim", waiting.id, "--as", "mara").exit_code == 0
    for words, count in (
        ("", " of 3"),
        ("--mine mara", ""),
        ("--mine cleo", " of 3"),
        ("--mine cleo --sort due", " of 3"),
        ("--mine cleo --state free", ""),
        ("--sort oldest", ""),
    ):
        result = invoke("approvals", "list", "--limit", "1", *words.split())
        said = f"1{count} shown. For the next ones" in result.stderr
        assert said == (words != "--mine mara"), (words, result.stderr)


def test_a_state_that_there_is_not_is_refused(invoke: Invoke, waiting: Approval) -> None:
    """The error lists the existing states."""
    assert waiting.state == "pending"
    result = invoke("approvals", "list", "--state", "open")
    assert (result.exit_code, "claimed" in result.stderr) == (2, True)
