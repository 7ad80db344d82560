"""`signoff ledger`: reindex, back up and restore the records in Redis."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.terminal import say
from signoff.core.base.counts import counted

if TYPE_CHECKING:
    from signoff.broker.archive.backup import Restored
    from signoff.broker.decisions import Decisions

_NAMED = 5

app = typer.Typer(no_args_is_help=True, help="The ledger in Redis: indexes, backup, restore.")


@app.command()
def rebuild(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Rebuild all indexes from the records. It can run while processes work."""

    async def work(decisions: Decisions) -> int:
        from signoff.broker.ledger.rebuild import rebuild as rebuild_indexes  # noqa: PLC0415

        return await rebuild_indexes(decisions.ledger)

    count = with_decisions(ctx, work, rings=True)
    if as_json:
        write_json({"records": count})
    else:
        say(f"The indexes of {counted(count, 'record')} were rebuilt.")


@app.command()
def backup(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it. It must not exist.")
    ],
    *,
    url: Annotated[
        str, typer.Option("--from", metavar="URL", help="A replica to read instead of [redis] url.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Write everything in Redis into a file, as it is at one moment. Processes may keep running.

    The archive, the settings, and sessions of agents in another store are not in it.
    """
    settings = settings_of(ctx)

    async def work() -> int:
        from signoff.broker.archive import backup  # noqa: PLC0415

        store = backup.patient_store(url or settings.redis_url, settings.redis.prefix)
        try:
            return await backup.backup(store, file)
        finally:
            await store.close()

    count = asyncio.run(work())
    if as_json:
        write_json({"file": str(file), "keys": count})
    else:
        say(f"{count:,} keys are in {file}.")


@app.command()
def restore(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The backup."),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Restore a backup into an empty Redis, and check all of it."""
    settings = settings_of(ctx)

    async def work() -> Restored:
        from signoff.broker.archive import backup  # noqa: PLC0415
        from signoff.broker.ledger.ledger import Ledger  # noqa: PLC0415

        ledger = Ledger(backup.patient_store(settings.redis_url, settings.redis.prefix))
        try:
            return await backup.restore(ledger, file)
        finally:
            await ledger.close()

    done = asyncio.run(work())
    made = datetime.fromtimestamp(done.at / 1000, UTC)
    if as_json:
        write_json(
            {
                "keys": done.keys,
                "at": made.isoformat(),
                "entries": done.entries,
                "running": list(done.running),
            }
        )
        return
    say(f"{done.keys:,} keys of {made:%Y-%m-%d %H:%M:%S} UTC are restored and checked.")
    if done.running:
        more = f" and {len(done.running) - _NAMED:,} more" if len(done.running) > _NAMED else ""
        say(
            f"{counted(len(done.running), 'run was', 'runs were')} in progress: "
            f"{', '.join(done.running[:_NAMED])}{more}. What their tools did after the backup is "
            "not known here and would be done again: look before you start workers."
        )
