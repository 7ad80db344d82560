"""ADK's sessions in SQLite, opened again."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from signoff.core.base.errors import ConfigError
from signoff.worker.adk.apps import session_service

OPENS = """
import sys
from pathlib import Path
from signoff.worker.adk.apps import session_service
for _ in range(2):
    session_service(sys.argv[1], Path(sys.argv[2]))
"""


def test_file_of_an_older_adk_is_refused_with_the_migration_command(tmp_path: Path) -> None:
    """Its events have other columns; the file does not change."""
    file = tmp_path / "sessions.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE events (id TEXT, content TEXT)")
    with pytest.raises(ConfigError, match="migrate_from_sqlalchemy_sqlite"):
        session_service(f"sqlite:///{file}", tmp_path)
    with closing(sqlite3.connect(file)) as database:
        assert [name for _, name, *_ in database.execute("PRAGMA table_info(events)")] == [
            "id",
            "content",
        ]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="older Pythons say nothing of it")
def test_every_connection_is_closed(tmp_path: Path) -> None:
    """Python 3.13 warns about an open connection."""
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-c",
            OPENS,
            f"sqlite:///{tmp_path}/sessions.db",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "unclosed database" not in done.stderr
