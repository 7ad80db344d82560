"""Moves on the command line that do not decide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import RILEY
from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger, waiting
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import SignoffError

__all__ = ["on_ledger", "waiting"]


def test_claim_is_made_shown_and_released(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger
) -> None:
    """Others are refused by name; an administrator may release it, and then the other decides."""
    done = invoke("approvals", "claim", waiting.id, "--as", "mara", "--for", "2h")
    assert "claimed by Mara Lind until" in done.output
    assert "Mara Lind, until" in invoke("approvals", "show", waiting.id).output
    refused = invoke("approvals", "approve", waiting.id, "--as", "cleo")
    assert (refused.exit_code, "Mara Lind has claimed" in refused.stderr) == (1, True)
    refused = invoke("approvals", "release", waiting.id, "--as", "cleo")
    assert (refused.exit_code, "only they or an operator can release" in refused.stderr) == (
        1,
        True,
    )
    assert "released" in invoke("approvals", "release", waiting.id, "--reason", "ill").output
    assert invoke("approvals", "approve", waiting.id, "--as", "cleo").exit_code == 0
    history = on_ledger(lambda ledger: ledger.history(waiting.id))
    assert [one.by.endswith("(cli)") for one in history if one.what == "released"] == [True]


def test_question_and_answer_appear_on_the_card(invoke: Invoke, waiting: Approval) -> None:
    """The requester's text is the answer; other people's texts are comments."""
    done = invoke("approvals", "ask", waiting.id, "Which team?", "--as", "mara")
    assert "Riley Voss is asked" in done.output
    assert invoke("approvals", "comment", waiting.id, "Sales", "--as", RILEY.email).exit_code == 0
    assert invoke("approvals", "comment", waiting.id, "I know them").exit_code == 0
    shown = json.loads(invoke("approvals", "show", waiting.id, "--json").output)
    assert [one["sort"] for one in shown["comments"]] == ["question", "answer", "comment"]
    text = invoke("approvals", "show", waiting.id).output
    assert "asks: Which team?" in text
    assert "Sales" in text


def test_the_deadline_moves(invoke: Invoke, waiting: Approval, on_ledger: OnLedger) -> None:
    """It moves by a span, with a reason, up to the limit."""
    done = invoke("approvals", "extend", waiting.id, "--by", "2h", "--reason", "vendor")
    assert "open until" in done.output
    after = on_ledger(lambda ledger: ledger.approval(waiting.id))
    assert (after.deadline - waiting.deadline).total_seconds() == 7_200
    refused = invoke("approvals", "extend", waiting.id, "--by", "3h", "--reason", "vendor")
    assert (refused.exit_code, "2h is the most" in refused.stderr) == (1, True)
    bad = invoke("approvals", "extend", waiting.id, "--by", "soon", "--reason", "vendor")
    assert (bad.exit_code, "not a duration" in bad.stderr) == (2, True)


def test_only_the_requester_withdraws_under_a_name(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger
) -> None:
    """An approver is refused; the requester withdraws it."""
    said = ("--reason", "a mistake")
    refused = invoke("approvals", "withdraw", waiting.id, "--as", "mara", *said)
    assert (refused.exit_code, "only the requester" in refused.stderr) == (1, True)
    assert not isinstance(refused.exception, SignoffError)
    assert invoke("approvals", "withdraw", waiting.id, "--as", "riley", *said).exit_code == 0
    after = on_ledger(lambda ledger: ledger.approval(waiting.id))
    assert (after.state, after.decision.by) == (State.WITHDRAWN, "riley")


def test_request_is_delegated_and_approvers_are_reminded(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger
) -> None:
    """By its holder or the operator, with a reason; a second reminder has to wait."""
    said = ("--reason", "ill")
    assert invoke("approvals", "reassign", waiting.id, "--to", "mara", *said).exit_code == 2
    done = invoke("approvals", "reassign", waiting.id, "--from", "mara", "--to", "cleo", *said)
    assert (done.exit_code, "is asked about approval" in done.stderr) == (1, True)
    done = invoke("approvals", "reassign", waiting.id, "--as", "mara", "--to", "riley", *said)
    assert (done.exit_code, "can never decide" in done.stderr) == (1, True)
    assert "will be reminded" in invoke("approvals", "remind", waiting.id).output
    again = invoke("approvals", "remind", waiting.id, "--as", "riley")
    assert (again.exit_code, "an hour later" in again.stderr) == (1, True)
    assert on_ledger(lambda ledger: ledger.approval(waiting.id)).approvers == {"mara", "cleo"}


def test_operator_can_delegate_a_second_factor_seat_only_at_the_terminal(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger
) -> None:
    """In the name of another person, a terminal is an account like any other."""

    async def in_two_steps(ledger: Ledger) -> None:
        was = await ledger.approval(waiting.id)
        assert was.terms is not None
        terms = was.terms.model_copy(update={"second_step": True})
        asked = tuple(one for one in was.asked if one.person == "mara")
        after = was.model_copy(update={"terms": terms, "asked": asked})
        await ledger.commit(Change().put(after, was=was))

    on_ledger(in_two_steps)
    give = ("approvals", "reassign", waiting.id, "--to", "cleo", "--reason", "left")
    refused = invoke(*give, "--as", "mara")
    assert (refused.exit_code, "second factor" in refused.stderr) == (1, True)
    done = invoke(*give, "--from", "mara")
    assert done.exit_code == 0, done.stderr
    assert on_ledger(lambda ledger: ledger.approval(waiting.id)).handovers[-1].to == "cleo"


OPERATOR = """
[[people]]
id = "olga"
name = "Olga Hein"
email = "olga@example.com"
roles = ["operator"]
"""
GIVE = ("reassign", "--from", "mara", "--to", "olga", "--reason", "x")


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("release",), "released"),
        (("comment", "They are travelling"), "commented"),
        (("extend", "--by", "1h", "--reason", "vendor"), "extended"),
        (("remind",), "reminded"),
        (("reassign", "--from", "cleo", "--to", "nils", "--reason", "left"), "reassigned"),
        (("withdraw", "--reason", "a duplicate"), "withdrawn"),
    ],
)
def test_people_with_the_role_move_as_operators(
    invoke: Invoke,
    waiting: Approval,
    on_ledger: OnLedger,
    *,
    settings_file: Path,
    command: tuple[str, ...],
    what: str,
) -> None:
    """At the command line as on the page; the audit names them and their role."""
    nils = OPERATOR.replace("olga", "nils").replace('roles = ["operator"]', "")
    settings_file.write_text(settings_file.read_text() + OPERATOR + nils)
    assert invoke("approvals", "claim", waiting.id, "--as", "mara").exit_code == 0
    name, *more = command
    done = invoke("approvals", name, waiting.id, *more, "--as", "olga")
    assert done.exit_code == 0, done.stderr
    last = on_ledger(lambda ledger: ledger.history(waiting.id))[-1]
    assert (last.what, last.by, last.more["role"]) == (what, "olga", "operator")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("claim",), "olga"),
        (("ask", "Which team?"), "olga"),
        (GIVE, "cannot take one of them"),
        (("reassign", "--to", "cleo", "--reason", "x"), "olga"),
    ],
)
def test_the_role_decides_nothing_and_takes_no_seat(
    invoke: Invoke,
    waiting: Approval,
    on_ledger: OnLedger,
    *,
    settings_file: Path,
    command: tuple[str, ...],
    why: str,
) -> None:
    """An operator who was not asked is refused what approvers do, and gets no seat."""
    settings_file.write_text(settings_file.read_text() + OPERATOR)
    name, *more = command
    refused = invoke("approvals", name, waiting.id, *more, "--as", "olga")
    assert (refused.exit_code, why in refused.stderr.lower()) == (1, True), refused.stderr
    assert on_ledger(lambda ledger: ledger.approval(waiting.id)) == waiting


def test_the_role_does_not_count_for_ones_own_requests(
    invoke: Invoke, waiting: Approval, settings_file: Path
) -> None:
    """The requester is an ordinary requester even with the role."""
    text = settings_file.read_text()
    mine = 'email = "riley@example.com"\n'
    settings_file.write_text(text.replace(mine, f'{mine}roles = ["operator"]\n'))
    assert invoke("approvals", "claim", waiting.id, "--as", "mara").exit_code == 0
    for name, more in (("release", ()), ("extend", ("--by", "1h", "--reason", "vendor"))):
        refused = invoke("approvals", name, waiting.id, *more, "--as", "riley")
        assert refused.exit_code == 1, refused.output


@pytest.mark.parametrize(
    "command",
    [
        ("approvals", "withdraw", "--reason", "x"),
        ("approvals", "release"),
        ("approvals", "reassign", "--from", "mara", "--to", "cleo", "--reason", "x"),
        ("approvals", "comment", "x"),
    ],
)
def test_an_empty_person_does_not_act_as_the_operator(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger, command: tuple[str, ...]
) -> None:
    """A variable of a script that is not set gives an empty name, which is refused."""
    group, name, *more = command
    refused = invoke(group, name, waiting.id, *more, "--as", "")
    assert (refused.exit_code, "it is empty" in refused.stderr) == (2, True)
    assert on_ledger(lambda ledger: ledger.approval(waiting.id)) == waiting
