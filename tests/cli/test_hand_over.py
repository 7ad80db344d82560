"""`signoff people away` names the waiting requests of a person and hands them over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from builders import CLEO, MARA, paused
from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger

__all__ = ["on_ledger"]

NO_AGENTS = {"SIGNOFF_AGENTS__FOLDER": "none"}
"""The doctor does not have to load agents."""

AWAY = ("people", "away", "mara", "--until", "9999-12-31")


@pytest.mark.usefixtures("settings_file")
def test_command_without_a_terminal_delegates_nothing_by_default(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """Without a terminal, nothing is handed over unless an option says so."""
    _, made = on_ledger(lambda ledger: paused(ledger, siblings=7, asked=[MARA]))
    said = " ".join(invoke(*AWAY, "--delegate", "cleo").stdout.split())
    assert "7 requests still wait for mara" in said
    assert "and 2 more" in said
    assert "--hand-over gives them to cleo alone" in said
    after = on_ledger(lambda ledger: ledger.approvals([one.id for one in made]))
    assert {one.ballot.own for one in after} == {("mara",)}


@pytest.mark.usefixtures("settings_file")
def test_pending_requests_are_delegated_and_audited(invoke: Invoke, on_ledger: OnLedger) -> None:
    """The delegate has it alone, and the audit names the operator."""
    _, made = on_ledger(lambda ledger: paused(ledger, siblings=2, asked=[MARA]))
    said = json.loads(invoke(*AWAY, "--delegate", "cleo", "--hand-over", "--json").stdout)
    assert sorted(said["handed_over"]) == sorted(one.id for one in made)
    assert said["waiting"] == []
    after = on_ledger(lambda ledger: ledger.approvals([one.id for one in made]))
    assert {one.ballot.own for one in after} == {("cleo",)}


@pytest.mark.usefixtures("settings_file")
def test_the_channels_hear_of_it_at_once(
    invoke: Invoke, on_ledger: OnLedger, redis_url: str
) -> None:
    """The delegate's card does not wait until a reconciler finds it."""
    on_ledger(lambda ledger: paused(ledger, asked=[MARA]))
    with Redis.from_url(redis_url) as redis:
        before = redis.llen("signoff.route")
        invoke(*AWAY, "--delegate", "cleo", "--hand-over")
        assert redis.llen("signoff.route") == before + 1


@pytest.mark.usefixtures("settings_file")
def test_request_stays_when_the_delegate_is_already_asked(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """The delegate is asked already; the output has the reason."""
    on_ledger(lambda ledger: paused(ledger, asked=[MARA, CLEO]))
    said = invoke(*AWAY, "--delegate", "cleo", "--hand-over").stdout
    assert "was not handed over: Cleo Park is asked about" in " ".join(said.split())


@pytest.mark.usefixtures("settings_file")
def test_missing_delegate_error_names_the_flag(invoke: Invoke) -> None:
    """The error says what the flag needs."""
    done = invoke(*AWAY, "--hand-over")
    assert done.exit_code == 2
    assert "--delegate" in done.stderr


@pytest.mark.usefixtures("settings_file")
def test_seats_without_a_person_are_named(invoke: Invoke) -> None:
    """The doctor and the list of queues name them."""
    invoke("people", "away", "cleo", "--until", "9999-12-31")
    listed = " ".join(invoke("queue", "list").stdout.split())
    assert "Nobody can be asked for cleo: Cleo Park is away until 9999-12-31." in listed
    findings = json.loads(invoke("doctor", "--json", env=NO_AGENTS).stdout)["findings"]
    (seats,) = [one for one in findings if one["about"] == "seats"]
    assert seats["level"] == "warning"
    assert "cleo: Cleo Park is away" in seats["text"]


def test_vacant_seat_of_a_person_who_left_is_named(invoke: Invoke, settings_file: Path) -> None:
    """The settings are valid; the vacant seat is named, and the list of people shows it."""
    text = settings_file.read_text()
    settings_file.write_text(text.replace('id = "cleo"\n', 'id = "cleo"\nactive = false\n'))
    assert invoke("config", "check").exit_code == 0
    listed = " ".join(invoke("queue", "list").stdout.split())
    assert "Nobody can be asked for cleo: Cleo Park is not active." in listed
    assert "not active" in invoke("people", "list").stdout
    findings = json.loads(invoke("doctor", "--json", env=NO_AGENTS).stdout)["findings"]
    (seats,) = [one for one in findings if one["about"] == "seats"]
    assert "cleo: Cleo Park is not active" in seats["text"]


@pytest.mark.usefixtures("settings_file")
@pytest.mark.parametrize(("said", "own"), [(b"y\n", "cleo"), (b"n\n", "mara")])
def test_terminal_asks_for_confirmation(on_ledger: OnLedger, said: bytes, own: str) -> None:
    """The waiting requests are counted, and only a yes hands them over."""
    _, (made,) = on_ledger(lambda ledger: paused(ledger, asked=[MARA]))
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "signoff.cli", *AWAY, "--delegate", "cleo"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        os.write(ours, said)
        out, _ = process.communicate()
    os.close(ours)
    assert b"1 still waiting for Mara Lind. Hand over to the delegate?" in out
    (after,) = on_ledger(lambda ledger: ledger.approvals([made.id]))
    assert after.ballot.own == (own,)
