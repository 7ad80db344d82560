"""`signoff tail`: one line per event."""

from __future__ import annotations

import json
from pathlib import Path

from cli.conftest import Invoke


def test_events_are_lines_for_people_and_for_machines(invoke: Invoke, settings_file: Path) -> None:
    """Each line has the time, the subject, the event and the person."""
    for user in ("riley", "sam"):
        assert invoke("run", "finance", "Reimburse me", "--user", user).exit_code == 0
    runs = json.loads(invoke("runs", "list", "--json").stdout)
    lines = invoke("tail", "--all", "--limit", "2").stdout.splitlines()
    assert [line.split("  ")[2:] for line in lines] == [
        ["submitted", "by Riley Voss"],
        ["submitted", "by sam"],
    ]
    one = invoke("tail", "--all", "--limit", "1", "--of", runs[0]["id"], "--json").stdout
    assert json.loads(one)["by"] == "sam"


def test_an_id_without_a_record_is_refused(invoke: Invoke, settings_file: Path) -> None:
    """No event of it would ever come, so the command does not wait."""
    assert settings_file.exists()
    done = invoke("tail", "--of", "NONSENSE")
    assert done.exit_code == 1
    assert "There is no approval or run 'NONSENSE'" in done.output
