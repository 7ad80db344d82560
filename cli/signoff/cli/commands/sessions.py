"""`signoff sessions`: moves ADK's sessions to another store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.terminal import say
from signoff.core.base.counts import counted
from signoff.core.base.errors import SessionsNotMoved

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.broker.sessions import SessionRecords

_USERS = ("worker", "gateway")

app = typer.Typer(no_args_is_help=True, help="The sessions of your agents.")


@app.callback()
def group() -> None:
    """Keep this a group, although it has only one command."""


@app.command()
def move(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Move sessions from `.signoff/sessions.db`, the last release's default, into Redis.

    Stop the workers and gateways first. The file is kept as `sessions.db.moved`. Sessions that are
    in Redis already stay as they are there.
    """
    settings = settings_of(ctx)
    file = settings.older_sessions
    if file is None:
        why = "[sessions] url is set" if settings.sessions.url else "there is no such file"
        raise SessionsNotMoved(
            f"There is nothing to move from {settings.state_folder / 'sessions.db'}: {why}."
        )

    async def work(decisions: Decisions) -> int:
        from signoff.broker.heartbeat import alive  # noqa: PLC0415 -- redis
        from signoff.broker.sessions import SessionRecords  # noqa: PLC0415

        found = await alive(decisions.ledger)
        if running := [f"{kind} {one}" for kind in _USERS for one in found.get(kind, [])]:
            raise SessionsNotMoved(
                f"{', '.join(running)} may be using the sessions. Stop all workers and gateways, "
                "wait 15 seconds, and move them then."
            )
        return await _move(file, SessionRecords(decisions.ledger.store))

    count = with_decisions(ctx, work)
    kept = file.with_name(f"{file.name}.moved")
    file.rename(kept)
    if as_json:
        write_json({"sessions": count, "file": str(kept)})
    else:
        say(f"Moved {counted(count, 'session')} to Redis. The file is kept as {kept}.")


async def _move(file: Path, records: SessionRecords) -> int:
    from signoff.broker.sessions import Name  # noqa: PLC0415 -- redis

    count = 0
    with closing(sqlite3.connect(file)) as database:
        try:
            for app_name, state in database.execute("SELECT app_name, state FROM app_states"):
                await records.import_state(app_name, "", _values(state))
            for app_name, user, state in database.execute(
                "SELECT app_name, user_id, state FROM user_states"
            ):
                await records.import_state(app_name, user, _values(state))
            for *names, state, at in database.execute(
                "SELECT app_name, user_id, id, state, update_time FROM sessions"
            ):
                events = list(_events(database, names))
                last = events[-1][0] if events else ""
                texts = [text for _, text in events]
                count += await records.import_newer(
                    Name(*names), _values(state), texts, last=last, at=at
                )
            # Write the log next to the file into the file itself, because the file is renamed.
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise SessionsNotMoved(
                f"{file} cannot be read: {error}. Nothing was removed from it. If another ADK has "
                "made it, `python -m google.adk.sessions.migration.migrate_from_sqlalchemy_sqlite` "
                "brings it into the present form."
            ) from error
    return count


def _events(database: sqlite3.Connection, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each event of a session, in the order of ADK."""
    yield from database.execute(
        "SELECT id, event_data FROM events WHERE app_name = ? AND user_id = ? AND session_id = ? "
        "ORDER BY timestamp, rowid",
        names,
    )


def _values(state: str) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in json.loads(state).items()}
