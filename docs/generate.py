"""Write what follows from the code: settings, command line, API and its OpenAPI document.

Run it with ``make docs``; tests/test_docs.py fails while the pages are out of date.
"""
# ruff: noqa: INP001 -- a script, not a package

from __future__ import annotations

import inspect
import json
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from signoff.broker.monitoring.metrics import METRICS
from signoff.cli.command_help import EXAMPLES
from signoff.core.base.durations import Span, format_duration
from signoff.core.policies.policy import Policy

REFERENCE = Path(__file__).parent / "reference"
OPENAPI = Path(__file__).parents[1] / "channels/signoff/channels/rest/openapi.json"

_SETTINGS_INTRO = """\
# Settings

Signoff reads `signoff.toml` from the working directory, or the file in `--config` or
`SIGNOFF_CONFIG`. Environment variables override the file. Their names are `SIGNOFF_`, the section,
two underscores and the key, in capitals: `SIGNOFF_REDIS__URL`. Lists and tables are JSON there. Put
secrets into the environment.

`signoff config check` reports errors and how to fix them. `signoff config schema` prints a JSON
schema for editors. Unknown keys are errors.

Durations look like `30m`, `4h`, `2d` or `1h30m`. Relative paths are relative to the settings file.

This page is generated from the code by `make docs`.
"""

_CLI_INTRO = """\
# The command line

`signoff --help` and `signoff COMMAND --help` print the same information. This page is generated
from the code by `make docs`.
"""


_METRICS_INTRO = """\
# Metrics

`/metrics` exports these with `[metrics] enabled = true`: see [monitor](../how-to/monitor.md). A
label has at most 100 values; what comes after them counts as `other`. Each process also exports
`process_cpu_seconds_total`, `process_resident_memory_bytes` and the other metrics of that kind.

This page is generated from the code by `make docs`.

| metric | type | labels | meaning | from |
|---|---|---|---|---|"""

_EXPORTERS = {
    "all": "each process",
    "worker": "workers",
    "channels": "channels",
    "ledger": "gateways, about the ledger",
    "checks": "gateways",
}


def pages() -> dict[Path, str]:
    """Return the generated pages by path."""
    return {
        REFERENCE / "settings.md": settings_page(),
        REFERENCE / "cli.md": cli_page(),
        REFERENCE / "api.md": api_reference(),
        REFERENCE / "metrics.md": metrics_page(),
        OPENAPI: openapi(),
    }


def metrics_page() -> str:
    """Return the reference of the metrics."""
    rows = [
        f"| `{one.name}` | {one.kind.value} | {', '.join(f'`{label}`' for label in one.labels)} | "
        f"{one.text} | {_EXPORTERS[one.of]} |"
        for one in METRICS.values()
    ]
    return "\n".join([_METRICS_INTRO, *rows, ""])


def api_reference() -> str:
    """Return the reference of the REST API."""
    sys.path.insert(0, str(Path(__file__).parent))
    from api_reference import api_page  # noqa: PLC0415 -- beside this script

    from signoff.channels.rest.app import openapi_document  # noqa: PLC0415 -- slow to import

    return api_page(openapi_document())


def openapi() -> str:
    """Return the OpenAPI document that gateways serve, with a line for each value."""
    from signoff.channels.rest.app import openapi_document  # noqa: PLC0415 -- slow to import

    return json.dumps(openapi_document(), ensure_ascii=False, indent=1) + "\n"


# -- settings -----------------------------------------------------------------------------------


def settings_page() -> str:
    """Return the reference of the settings."""
    from signoff.cli.config.settings import Settings  # noqa: PLC0415 -- slow to import, and only here

    shared: dict[tuple[str, str], str] = {}
    tables = list(_tables("", Settings))
    lists = {name for name, _, many in tables if many}
    sections = (
        _section(name, model, many, shared, in_list=name.rpartition(".")[0] in lists)
        for name, model, many in tables
    )
    return "\n".join([_SETTINGS_INTRO, *sections])


def settings_keys() -> Iterator[str]:
    """Yield every setting as people write it: ``redis.url``, ``email.smtp.host``."""
    from signoff.cli.config.settings import Settings  # noqa: PLC0415 -- slow to import, and only here

    for name, model, _ in _tables("", Settings):
        yield from (f"{name}.{field.alias or key}" for key, field in _own_first(model))


def _tables(name: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel], bool]]:
    """Yield name and model of every table inside a table, and whether there may be many."""
    for key, field in model.model_fields.items():
        inner, many = _model_of(field.annotation)
        if inner is not None:
            full = f"{name}.{key}" if name else key
            if typing.get_origin(field.annotation) is dict:
                full, many = f"{full}.NAME", False
            elif type(None) in typing.get_args(field.annotation):
                many = False
            yield full, inner, many
            yield from _tables(full, inner)


def _plain_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    fields = model.model_fields.items()
    return {key: field for key, field in fields if _model_of(field.annotation)[0] is None}


def _section(
    name: str,
    model: type[BaseModel],
    many: bool,
    shared: dict[tuple[str, str], str],
    *,
    in_list: bool,
) -> str:
    """Return the table of a section; rows that an earlier section has are only named.

    Args:
        name: The section.
        model: Its model.
        many: Whether there may be several.
        shared: By the owner and the row of a key, the section that has it; added to.
        in_list: Whether it belongs to an entry of a list, and so has no variable of its own.
    """
    title = f"[[{name}]]" if many else f"[{name}]"
    lines = [f"## `{title}`", "", _summary(model), ""]
    if many:
        variable = f"SIGNOFF_{name.upper().replace('.', '__')}"
        by_variable = "" if in_list else f" In the environment: `{variable}`, as JSON."
        lines += [f"Repeat it as needed.{by_variable}", ""]
    rows, same = [], dict[str, list[str]]()
    # The default has the same keys as a policy, and says of them only what is different.
    notes = _attributes(Policy) | _attributes(model)
    for key, field in _own_first(model):
        meaning = " ".join((field.description or notes.get(key, "")).replace("``", "`").split())
        row = (f"`{field.alias or key}`", _kind(field.annotation), _default(field), _cell(meaning))
        line = f"| {' | '.join(row)} |"
        first = shared.setdefault((_owner(model, key), line), title)
        if first == title:
            rows.append(line)
        else:
            same.setdefault(first, []).append(row[0])
    if rows:
        lines += ["| key | value | default | meaning |", "|---|---|---|---|", *rows, ""]
    for first, keys in same.items():
        lines += [
            f"As in [`{first}`](#{first.strip('[]').replace('.', '').lower()}): {', '.join(keys)}.",
            "",
        ]
    return "\n".join(lines)


def _owner(model: type[BaseModel], key: str) -> str:
    """Return the class that declares a key."""
    return next(one.__qualname__ for one in model.__mro__ if key in one.__annotations__)


def _summary(model: type[BaseModel]) -> str:
    text = (inspect.getdoc(model) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
    head, colon, rest = text.partition(": ")
    text = rest if colon and head.startswith("[") else text
    return text[:1].upper() + text[1:]


def _own_first(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """Return the fields, those that the model shares with others behind its own."""
    own = model.__annotations__
    return sorted(_plain_fields(model).items(), key=lambda item: item[0] not in own)


def _attributes(model: type[BaseModel]) -> dict[str, str]:
    """Read the ``Attributes:`` of the docstrings of a model and of those it is made from."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if issubclass(one, BaseModel) and one is not BaseModel:
            found |= _attributes_of(one)
    return found


def _attributes_of(model: type[BaseModel]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    _, _, section = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")
    for line in section.splitlines():
        if line.startswith("    ") and not line.startswith("     ") and ": " in line:
            name, _, text = line.strip().partition(": ")
            found[name] = text
        elif line.startswith("     ") and name:
            found[name] += " " + line.strip()
    return found


def _model_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:  # noqa: ANN401
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for part in typing.get_args(annotation):
        model, _ = _model_of(part)
        if model is not None:
            return model, True
    return None, False


def _kind(annotation: Any) -> str:  # noqa: ANN401
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in {tuple, dict, Mapping}:
        values = _kind(parts[0 if origin is tuple else 1])
        plural = "numbers" if values == "number" else values
        return f"{'list' if origin is tuple else 'table'} of {plural}"
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(_kind(part) for part in parts if part is not type(None))
    if origin is not None and parts:
        return _kind(parts[0])
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{one.value}`" for one in annotation)
    names: dict[object, str] = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "`true`, `false`",
        date: "date",
        datetime: "date and time",
    }
    names[JsonValue] = "any value"
    return names.get(
        annotation, {Path: "path", timedelta: "duration", Span: "duration"}.get(annotation, "text")
    )


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    secret = hasattr(value, "get_secret_value")
    if value is None or value is PydanticUndefined or value in ("", (), {}) or secret:
        return ""
    if isinstance(value, timedelta):
        return f"`{format_duration(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# -- the command line ---------------------------------------------------------------------------


Command = TyperCommand | TyperGroup


def cli_page() -> str:
    """Return the reference of the command line."""
    parts = [_CLI_INTRO]
    for words, command in commands():
        if not words or not isinstance(command, TyperGroup) or command.invoke_without_command:
            parts.append(_command_section(words, command))
    return "\n".join(parts)


def commands() -> list[tuple[tuple[str, ...], Command]]:
    """Return every command that is not hidden, with the words that call it; the root is first."""
    from signoff.cli.main import app  # noqa: PLC0415 -- slow to import, and only here

    root = typer.main.get_command(app)
    return list(_walk((), root))


def _walk(words: tuple[str, ...], command: object) -> Iterator[tuple[tuple[str, ...], Command]]:
    if isinstance(command, TyperGroup):
        yield words, command
        for name, inner in command.commands.items():
            if not inner.hidden:
                yield from _walk((*words, name), inner)
    elif isinstance(command, TyperCommand):
        yield words, command


def _command_section(words: tuple[str, ...], command: Command) -> str:
    usage = " ".join(("signoff", *words))
    lines = [f"## `{usage}`" if words else "## Options of every command", ""]
    if words:
        arguments = ""
        for one in command.params:
            if isinstance(one, TyperArgument):
                name = (one.metavar or one.name or "").upper()
                name = name if one.required else f"[{name}]"
                arguments += f" {name}" + "..." * (one.nargs != 1)
        text = inspect.cleandoc(command.help or "").partition("\f")[0].strip()
        lines += [*text.splitlines(), ""]
        if arguments:
            lines += [f"    {usage}{arguments}", ""]
        if examples := EXAMPLES.get(" ".join(words)):
            lines += ["```sh", *examples, "```", ""]
    rows = []
    for one in command.params:
        if not isinstance(one, TyperArgument | TyperOption) or one.hidden or "--help" in one.opts:
            continue
        meaning = " ".join((one.help or "").split())
        rows.append(f"| {_names(one)} | {_cell(meaning)} |")
    if rows:
        lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _names(one: TyperArgument | TyperOption) -> str:
    if isinstance(one, TyperArgument):
        return f"`{(one.metavar or one.name or '').upper()}`"
    flags = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    value = "" if one.is_flag or one.count else f" {(one.metavar or one.name or '').upper()}"
    return f"{flags}{value}"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
