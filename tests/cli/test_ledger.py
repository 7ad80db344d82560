"""`signoff ledger`: indexes, backup and restore, on real Redis servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from archiving import seeded
from cli.conftest import Invoke
from cli.test_commands import on_ledger
from services import plain_redis

__all__ = ["on_ledger"]


def test_a_ledger_is_backed_up_and_restored(
    invoke: Invoke, settings_file: Path, on_ledger: Callable[..., Any], tmp_path: Path
) -> None:
    """The copy has the same requests and audit; a second restore is refused."""
    on_ledger(partial(seeded, count=2, waiting=1))
    assert json.loads(invoke("ledger", "rebuild", "--json").output) == {"records": 6}
    head = json.loads(invoke("audit", "verify", "--json").output)["head"]
    file = str(tmp_path / "signoff.backup")
    done = invoke("ledger", "backup", file, "--json")
    keys = json.loads(done.output)["keys"]
    assert "already" in invoke("ledger", "backup", file).output
    assert "not empty" in invoke("ledger", "restore", file).output
    (tmp_path / "other").mkdir()
    with plain_redis(tmp_path / "other") as url:
        text = settings_file.read_text()
        line = next(one for one in text.splitlines() if one.startswith("url = "))
        settings_file.write_text(text.replace(line, f'url = "{url}"'))
        restored = json.loads(invoke("ledger", "restore", file, "--json").output)
        assert (restored["keys"], restored["entries"]) == (keys, 13)
        assert (
            json.loads(invoke("audit", "verify", "--head", head, "--json").output)["head"] == head
        )
        assert len(json.loads(invoke("approvals", "list", "--all", "--json").output)) == 3
