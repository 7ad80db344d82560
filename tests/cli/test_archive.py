"""`signoff archive`, on a real ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from archiving import seeded
from builders import present
from cli.conftest import Invoke
from cli.test_commands import on_ledger
from leaks import text_in, words_in
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger

__all__ = ["on_ledger"]


def said(result: Result) -> str:
    """Return the output of a command on one line."""
    return " ".join(result.output.split())


@pytest.fixture
def runs(settings_file: Path, on_ledger: Callable[..., Any]) -> list[str]:
    """Return three ended runs and one that waits."""
    assert settings_file.exists()
    return list(on_ledger(partial(seeded, count=3, waiting=1)))


def test_archived_runs_are_listed_shown_exported_and_verified(
    invoke: Invoke, runs: list[str], tmp_path: Path
) -> None:
    """Ended runs are listed, shown, exported and verified; Redis has the other one."""
    before = json.loads(invoke("audit", "verify", "--json").output)
    text = invoke("audit", "export").output
    done = invoke("archive", "run", "--after", "0s", "--json")
    told = {"files": [1], "runs": 3, "entries": 19, "sessions": 0, "busy": False}
    assert json.loads(done.output) == told
    assert (tmp_path / ".signoff" / "archive" / "000001.jsonl").stat().st_mode & 0o077 == 0
    listed = json.loads(invoke("archive", "list", "--json").output)
    assert [one["id"] for one in listed if one["kind"] == "run"] == sorted(runs, reverse=True)
    approval = listed[0]["id"]
    for arguments in (("archive", "list"), ("archive", "show", approval)):
        shown = invoke(*arguments)
        assert shown.exit_code == 0
        assert approval in shown.output
    shown = json.loads(invoke("archive", "show", runs[0], "--json").output)
    assert shown["record"]["message"] == "Reimburse me $2500"
    assert shown["events"][-1]["what"] == "completed"
    found = json.loads(invoke("archive", "verify", "--head", before["head"], "--json").output)
    assert (found["entries"], found["archived"], found["files"]) == (20, 19, 1)
    assert json.loads(invoke("audit", "verify", "--json").output) == found
    exported = invoke("audit", "export").output
    assert exported.startswith(text)
    (tmp_path / "audit.jsonl").write_text(exported)
    assert "unbroken" in invoke("audit", "verify", "--file", str(tmp_path / "audit.jsonl")).output
    assert len(invoke("audit", "export", "--of", approval).output.splitlines()) == 5
    assert len(invoke("archive", "export").output.splitlines()) == 6
    (one,) = invoke("archive", "export", "--of", runs[0]).output.splitlines()
    assert json.loads(one)["record"] == f"run:{runs[0]}"
    gone = invoke("runs", "show", runs[0])
    assert gone.exit_code == 1
    assert "signoff archive show" in said(gone)


def test_archive_show_hides_the_hidden_values(
    invoke: Invoke, settings_file: Path, on_ledger: Callable[..., Any]
) -> None:
    """`archive show` hides what `approvals show` hid; the digest is that of the whole call."""
    assert settings_file.exists()

    async def hidden(ledger: Ledger) -> str:
        await seeded(ledger, 1)
        (was,) = await ledger.approvals(await ledger.store.members("approvals"))
        after = was.model_copy(update={"terms": present(was.terms).hiding(("amount",))})
        await ledger.commit(Change().put(after, was=was))
        return after.id

    approval = on_ledger(hidden)
    assert invoke("archive", "run", "--after", "0s").exit_code == 0
    for more in ((), ("--json",)):
        shown = invoke("archive", "show", approval, *more).output
        assert words_in(shown, "2500") == []
        assert "sha256:" in shown


def test_archive_errors_name_the_missing_part(
    invoke: Invoke, runs: list[str], tmp_path: Path
) -> None:
    """A missing age, an unknown id and a changed file each have their own message."""
    assert "--after" in invoke("archive", "run").output
    assert "not a duration" in invoke("archive", "run", "--after", "soon").output
    assert invoke("archive", "run", "--after", "0s").exit_code == 0
    assert "no run and no approval" in said(invoke("archive", "show", "run_x"))
    file = tmp_path / ".signoff" / "archive" / "000001.jsonl"
    file.write_text(file.read_text().replace("2500", "2600"))
    assert "checksum" in said(invoke("archive", "verify"))


def test_a_run_in_doubt_is_settled(invoke: Invoke, runs: list[str]) -> None:
    """The audit has the person and the reason; a run that has not ended is refused."""
    done = invoke("runs", "settle", runs[0], "--reason", "it was paid", "--by", "ops")
    assert done.exit_code == 0
    assert "it was paid" in invoke("runs", "show", runs[0]).output
    refused = invoke("runs", "settle", "run_00003", "--reason", "it was paid")
    assert "has not ended" in said(refused)


def test_a_person_is_not_erased_while_something_waits(invoke: Invoke, runs: list[str]) -> None:
    """It needs a confirmation, and the message names what still waits."""
    erase = ("people", "erase", "riley", "--reason", "asked for it")
    assert "--yes" in invoke(*erase).output
    refused = said(invoke(*erase, "--yes"))
    assert "run_00003 has not ended" in refused
    assert invoke("runs", "show", runs[0]).exit_code == 0


def test_erasure_covers_every_name_of_a_person_who_left(
    invoke: Invoke, settings_file: Path, on_ledger: Callable[..., Any]
) -> None:
    """The settings still have the address and the name of an inactive person."""
    left = 'id = "mara"\nactive = false\n'
    settings_file.write_text(settings_file.read_text().replace('id = "mara"\n', left))
    on_ledger(partial(seeded, count=2))
    assert "mara@example.com" in on_ledger(text_in)
    done = invoke("people", "erase", "mara", "--reason", "asked for it", "--yes")
    assert done.exit_code == 0, done.output
    printed = invoke("archive", "export").output + invoke("audit", "export").output
    assert words_in(printed, "mara", "Mara") == []


def test_erasure_revokes_instance_tokens_of_the_person(
    invoke: Invoke, settings_file: Path, on_ledger: Callable[..., Any]
) -> None:
    """Their tokens become invalid, and those of other people stay valid."""
    on_ledger(partial(seeded, count=1))
    for name, user in (("hers", "Riley@Example.com"), ("other", "cleo@example.com")):
        assert invoke("aap", "instance", "add", name, "--user", user).exit_code == 0
    done = invoke("people", "erase", "riley", "--reason", "asked for it", "--yes")
    assert done.exit_code == 0, done.output
    listed = json.loads(invoke("aap", "instance", "list", "--json").stdout)
    assert [one["name"] for one in listed] == ["other"]
    assert len(json.loads(invoke("tokens", "list", "--json").stdout)) == 1
    assert words_in(str(on_ledger(text_in)).lower(), "riley") == []


def test_a_person_is_erased(
    invoke: Invoke, settings_file: Path, on_ledger: Callable[..., Any]
) -> None:
    """The remaining data can be printed, and does not name them."""
    assert settings_file.exists()
    on_ledger(partial(seeded, count=2))
    for person in ("mara@example.com", "cleo"):
        invoke("tokens", "create", "--person", person, "--scope", "runs:read")
        done = invoke("people", "erase", person, "--reason", "asked for it", "--yes", "--json")
        assert json.loads(done.output)["files"] >= 1
    printed = invoke("archive", "export").output + invoke("audit", "export").output
    assert len(printed.splitlines()) > 10
    assert words_in(printed, "mara", "Mara", "cleo", "Cleo") == []
    assert invoke("audit", "verify").exit_code == 0
