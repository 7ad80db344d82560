"""Checks the store of ADK's sessions, which workers and the gateway's ADK API need."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from signoff.cli import log as logs
from signoff.cli.boundary import install_hint
from signoff.cli.config.settings import Settings
from signoff.cli.doctor.finding import Finding

_ABOUT: Final = "sessions"
_SQLITE: Final = "sqlite:///"
_SQL: Final = {"postgresql", "mysql", "mariadb", "mssql", "oracle"}
_PATIENCE: Final = 10.0


async def about_sessions(settings: Settings) -> Finding:
    """Open the store of ADK's sessions; nothing is changed."""
    url = settings.sessions_url
    if not url:
        return Finding(_ABOUT, "good", "they are in the ledger's Redis")
    shown = logs.hide_passwords(url)
    remedy = "Check [sessions] url; put its password into SIGNOFF_SESSIONS__URL."
    try:
        async with asyncio.timeout(_PATIENCE):
            if url.startswith(_SQLITE):
                remedy = "The user of the workers must be able to write there."
                await asyncio.to_thread(_sqlite, Path(url.removeprefix(_SQLITE)))
            elif url.startswith(("redis://", "rediss://")):
                await _redis(url)
            elif "://" in url and url.partition("://")[0].partition("+")[0] in _SQL:
                await _sql(url)
            else:
                text = f"{shown} is not checked: ADK opens it when a worker starts"
                return Finding(_ABOUT, "warning", text)
    except ModuleNotFoundError as error:
        text = install_hint(error) or f"{shown} needs a package: pip install {error.name}"
        return Finding(_ABOUT, "broken", text)
    except Exception as error:  # noqa: BLE001 -- each driver has its own errors
        why = logs.hide_passwords(str(error)).partition("\n")[0] or type(error).__name__
        return Finding(_ABOUT, "broken", f"{shown} cannot be used: {why}. {remedy}")
    return Finding(_ABOUT, "good", f"{shown} can be used")


def _sqlite(file: Path) -> None:
    if file.exists():
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)) as connection:
            connection.execute("PRAGMA schema_version").fetchone()
        if not os.access(file, os.W_OK):
            raise PermissionError(f"{file} is not writable")
        return
    folder = next(one for one in file.parents if one.exists())
    if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
        raise PermissionError(f"no file can be created in {folder}")


async def _redis(url: str) -> None:
    import redis.asyncio  # noqa: PLC0415 -- only for sessions in Redis

    async with redis.asyncio.Redis.from_url(url) as client:
        await client.ping()


async def _sql(url: str) -> None:
    from sqlalchemy import text  # noqa: PLC0415 -- google-adk installs it
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415

    engine = create_async_engine(url)
    try:
        async with engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
    finally:
        await engine.dispose()
