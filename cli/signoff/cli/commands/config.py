"""`signoff config`: checks, shows and compares settings."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signoff.cli.boundary import REFUSED, USAGE
from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.config.toml_lines import toml_text
from signoff.cli.printing import Output, Text
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.cli.config.faults import Fault

app = typer.Typer(no_args_is_help=True, help="The settings.")


@app.command()
def check(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Check the settings: print each error, its place and how to fix it."""
    from signoff.cli.config.check import check as faults_in  # noqa: PLC0415
    from signoff.cli.config.faults import ConfigErrors  # noqa: PLC0415

    try:
        settings = settings_of(ctx)
        faults = faults_in(settings)
        source = str(settings.file or "the environment and the defaults")
    except ConfigErrors as error:
        faults, source = list(error.faults), ""
    failed = any(fault.severity == "error" for fault in faults)
    if as_json:
        write_json({"ok": not failed, "faults": [fault._asdict() for fault in faults]})
    else:
        _write(faults)
        if not failed:
            say(f"The settings from {source} are good.")
    if failed:
        raise typer.Exit(USAGE)


@app.command()
def schema() -> None:
    """Print the JSON schema of signoff.toml, for editors."""
    from signoff.cli.config.settings import Settings  # noqa: PLC0415

    dialect = "https://json-schema.org/draft/2020-12/schema"
    write_json({"$schema": dialect, **Settings.model_json_schema()})


@app.command()
def show(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Print the effective settings from file, environment and defaults, without secrets."""
    from signoff.cli.log import hide_passwords  # noqa: PLC0415

    settings = settings_of(ctx)

    def clean(value: Any) -> Any:  # noqa: ANN401 -- any JSON
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item) for item in value]
        return hide_passwords(value) if isinstance(value, str) else value

    values = clean(settings.model_dump(mode="json"))
    if as_json:
        write_json(values)
        return
    say(f"# {settings.file or 'no settings file; environment and defaults'}")
    for line in _toml(values):
        say(line)


@app.command()
def diff(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The other settings.")],
    *,
    limit: Annotated[
        int, typer.Option(min=1, help="The most groups of approvals that would change alike.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """Print what the settings in FILE would change, for pending approvals too. Nothing is changed.

    The exit code is 1 if anything would change, otherwise 0.
    """
    from signoff.cli.commands.approvals.timelines import diff_json, print_diff  # noqa: PLC0415
    from signoff.cli.composition.credentials import RULES  # noqa: PLC0415
    from signoff.cli.config.changes import entries, gone  # noqa: PLC0415
    from signoff.cli.config.check import require  # noqa: PLC0415
    from signoff.cli.config.settings import load_settings  # noqa: PLC0415
    from signoff.cli.policy_cases.diff import differences  # noqa: PLC0415

    settings, other = settings_of(ctx), load_settings(file)
    require(other, RULES)
    changed, restart = list(entries(settings, other)), settings.fixed_differences(other)

    async def work(decisions: Decisions) -> None:
        from signoff.broker.directory.absences import People  # noqa: PLC0415

        pending = await decisions.ledger.pending()
        left = gone(pending, other)
        directory = await People(decisions.ledger, other.everybody).directory()
        found = differences(pending, other, directory)
        if as_json:
            rows = [asdict(one) for one in changed]
            write_json(
                {"changes": rows, "restart": restart, "gone": left, "pending": diff_json(found)}
            )
            return
        for one in changed:
            fields = f" ({', '.join(one.fields)})" if one.fields else ""
            say(f"{one.section}: {one.name} {one.change}{fields}")
        if restart:
            say(f"Read when a process starts, so restart for: {', '.join(restart)}")
        for approval, people in left.items():
            say(f"{approval}: {', '.join(people)} would be gone; others are asked in their place")
        # An approval keeps the terms under which it was opened; new ones get these.
        print_diff(found, len(pending), most=limit)

    with_decisions(ctx, work)
    if changed or restart:
        raise typer.Exit(REFUSED)


def _write(faults: list[Fault]) -> None:
    out = Output()
    for fault in faults:
        style = "bold red" if fault.severity == "error" else "yellow"
        out.print(Text().append(f"{fault.severity}: ", style).append(str(fault)))


def _toml(values: dict[str, Any], table: str = "") -> list[str]:
    """Return the settings of a table as lines of TOML, without settings that are not set.

    The table is named with its parents; "" is the top.
    """
    tables = {key: item for key, item in values.items() if isinstance(item, dict)}
    lists = {key: item for key, item in values.items() if _is_tables(item)}
    lines = [
        f"{_key(key)} = {toml_text(item)}"
        for key, item in values.items()
        if item is not None and key not in tables and key not in lists
    ]
    parent = f"{table}." if table else ""
    for key, item in tables.items():
        name = parent + _key(key)
        lines += ["", f"[{name}]", *_toml(item, name)]
    for key, items in lists.items():
        name = parent + _key(key)
        for item in items:
            lines += ["", f"[[{name}]]", *_toml(item, name)]
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else toml_text(name)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
