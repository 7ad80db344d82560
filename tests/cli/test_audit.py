"""`signoff audit verify --file`: checks an export without Redis."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from typer.testing import Result

from cli.conftest import Invoke
from cli.test_commands import on_ledger, waiting
from signoff.broker.ledger.audit import from_line, to_line
from signoff.core.approvals.approval import Approval

__all__ = ["on_ledger", "waiting"]


def test_an_export_is_verified_without_redis(
    invoke: Invoke, waiting: Approval, tmp_path: Path
) -> None:
    """It verifies with the same head; a changed or missing line or another head is found."""
    reason = "nein\u2028\x85 1e16 ü"
    assert (
        invoke("approvals", "reject", waiting.id, "--as", "mara", "--reason", reason).exit_code == 0
    )
    text = invoke("audit", "export").output
    verified = json.loads(invoke("audit", "verify", "--json").output)
    file = tmp_path / "audit.jsonl"

    def verify(written: str, *more: str) -> Result:
        file.write_text(written, encoding="utf-8", newline="")
        (tmp_path / "signoff.toml").rename(tmp_path / "away.toml")
        try:
            return invoke("audit", "verify", "--file", str(file), "--json", *more)
        finally:
            (tmp_path / "away.toml").rename(tmp_path / "signoff.toml")

    assert json.loads(verify(text, "--head", verified["head"]).output) == verified
    lines = text.split("\n")
    for changed in (
        text.replace("mara", "cleo"),
        "\n".join(lines[1:]),
        "\n".join([*lines[:1], *lines[2:]]),
        text.replace('"entry": {', '"entry":{'),
    ):
        assert verify(changed).exit_code == 1
    assert verify("\n".join(lines[:-2]), "--head", verified["head"]).exit_code == 1
    (tmp_path / "damaged").write_bytes(text.encode("utf-16"))
    damaged = invoke("audit", "verify", "--file", str(tmp_path / "damaged"))
    assert damaged.exit_code == 1
    assert "Line 1 cannot be verified" in damaged.output
    entry_id, entry, link, _ = from_line(lines[1])
    hashed = hashlib.sha256(entry.encode()).hexdigest()
    lines[1] = to_line(entry_id, entry.replace("riley", "cleo"), link, hashed).rstrip("\n")
    forged = verify("\n".join(lines))
    assert forged.exit_code == 1
    assert "no entry notes an erasure" in forged.output
