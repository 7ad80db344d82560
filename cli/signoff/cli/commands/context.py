"""Shared by all commands: their settings, and access to the ledger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from signoff.cli.terminal import say_json
from signoff.core.base.errors import ConfigError, LedgerUnavailable

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.cli.config.settings import Settings
    from signoff.core.directory.people import Directory, Person

T = TypeVar("T")

_MOST_IDS = 20
"""How many ids of people a message lists."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def config_of(ctx: typer.Context) -> Path | None:
    """Return the file of ``--config``."""
    config = ctx.find_root().obj
    return config if isinstance(config, Path) else None


def settings_of(ctx: typer.Context, kind: str = "") -> Settings:
    """Read the settings of this call for a kind of process, once; warnings go to standard error.

    Raises:
        ConfigErrors: The settings have errors.
    """
    from signoff.cli import log  # noqa: PLC0415 -- help must not wait for the settings
    from signoff.cli.config.sections import LogSettings  # noqa: PLC0415
    from signoff.cli.config.settings import load_settings  # noqa: PLC0415

    known: dict[str, Settings] = ctx.find_root().meta.setdefault(__name__, {})
    if kind not in known:
        known[kind] = load_settings(config_of(ctx), kind)
        log.configure(LogSettings(level="warning", redact=known[kind].logging.redact))
    return known[kind]


def with_decisions(
    ctx: typer.Context, work: Callable[[Decisions], Awaitable[T]], *, rings: bool = False
) -> T:
    """Call a function with the ledger of the settings, and return its result.

    `rings` says that it puts work into a stage, whose processes are then notified.

    Raises:
        SignoffError: The function has raised it.
    """
    return asyncio.run(_with_decisions(settings_of(ctx), work, rings=rings))


async def _with_decisions(
    settings: Settings, work: Callable[[Decisions], Awaitable[T]], *, rings: bool
) -> T:
    from signoff.broker.decisions import Decisions  # noqa: PLC0415 -- redis takes a while to import
    from signoff.broker.ledger.ledger import Ledger  # noqa: PLC0415
    from signoff.broker.ledger.store import Store  # noqa: PLC0415
    from signoff.cli.composition.monitoring import COMMAND, handed_over, traced  # noqa: PLC0415

    replica = settings.redis.durability == "replica"
    store = Store.open(settings.redis_url, prefix=settings.redis.prefix, replica=replica)
    bell, receipts = None, None
    if rings:
        from signoff.cli.composition.parts import open_bell  # noqa: PLC0415
        from signoff.cli.composition.receipts import open_receipts  # noqa: PLC0415

        bell = open_bell(settings, store)
        # A function that puts no work into a stage decides nothing and needs no receipts.
        receipts = open_receipts(settings)
    ledger = Ledger(store, bell, receipts=receipts)
    try:
        with traced(settings, COMMAND):
            async with handed_over(settings, ledger):
                return await work(Decisions(ledger, settings.everybody))
    except LedgerUnavailable as error:
        if "url" in settings.redis.model_fields_set:
            raise
        here = f"There is no signoff.toml in {settings.home}: change into the folder that has it"
        if settings.file is not None:
            here = f"`signoff up`, which starts a Redis, does not run in {settings.home}: start it"
        raise LedgerUnavailable(f"{here}, or set [redis] url. {error}") from error
    finally:
        await ledger.close()


def person_of(directory: Directory, identity: str) -> Person:
    """Return a person by id or address.

    Raises:
        ConfigError: There is no such person.
    """
    person = directory.find(identity)
    if person is None:
        ids = [one.id for one in directory]
        more = ", …" if len(ids) > _MOST_IDS else ""
        known = ", ".join(ids[:_MOST_IDS]) or "none"
        raise ConfigError(
            f"There is no person {identity!r} in [[people]]. The ids there: {known}{more}."
        )
    return person


def length_of(text: str, option: str) -> timedelta:
    """Parse the value of an option, such as ``--by``, as a duration of clock time.

    Raises:
        typer.BadParameter: The text is not a duration, or is one of working time.
    """
    from signoff.core.base.durations import parse_length  # noqa: PLC0415

    try:
        return parse_length(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def operator() -> str:
    """Return how the audit log names the user of the terminal."""
    from signoff.cli.composition.kinds import login  # noqa: PLC0415 -- help must not wait for it

    return f"{login()} (cli)"


def write_json(value: Any) -> None:  # noqa: ANN401 -- any JSON
    """Write a value as JSON to standard output."""
    say_json(json.dumps(value, ensure_ascii=False, indent=2, default=str))
